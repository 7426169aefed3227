"""What a session is given for a task, shown and explained: the verb `show --as-agent`."""
