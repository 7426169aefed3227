"""Two playbooks side by side: between moments, under other policies, by conditions."""
