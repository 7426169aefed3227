"""A person's own playbook next to the project's: begun, written together with it, promoted from and demoted to."""
