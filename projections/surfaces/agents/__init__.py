"""The agents that call Tallybook: a module for each, and how a caller is recognised. Standard library only."""
