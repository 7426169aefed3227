"""The engines that can hold a book: a git remote and PostgreSQL."""
