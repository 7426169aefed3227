"""The playbook: its entries, how they are pruned, rendered and injected."""
