"""Questions about a ledger: moments, states, stories, events, SQL; checkpoints and ``playbook.json``."""
