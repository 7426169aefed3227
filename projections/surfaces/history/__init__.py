"""Questions about a ledger: moments, states, stories, events, SQL; checkpoints, ``playbook.json``, a shared history."""
