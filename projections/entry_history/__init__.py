"""What happened to an entry: its status, its story, the other names of its advice."""
