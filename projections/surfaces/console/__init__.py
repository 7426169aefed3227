"""What people see on a terminal: answers, tables, stories."""
