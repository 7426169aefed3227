"""The page: the history of a playbook as one HTML file, and the server that refreshes it."""
