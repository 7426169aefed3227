"""What happened to an entry: its status, its story, its lineage."""
