"""Scores of an agent from 0 to 100: of its components, its sessions and of periods; and lift, by them."""
