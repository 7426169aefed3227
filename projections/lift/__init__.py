"""Whether the playbook helps: the statistics of sessions that were given an entry and of those that were not."""
