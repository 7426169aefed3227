"""Hooks of agents: the payload, the appended events, the answer. Standard library only."""
