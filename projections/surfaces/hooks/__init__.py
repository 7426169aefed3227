"""Hooks of agents: the payload, what is appended, what is answered. Standard library only."""
