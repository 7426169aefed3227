"""The engines that can hold a book: a git remote, an object store, and PostgreSQL."""
