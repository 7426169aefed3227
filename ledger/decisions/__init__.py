"""Pure functions from payloads and the state of the playbook to events."""
