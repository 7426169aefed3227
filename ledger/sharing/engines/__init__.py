"""The engines that can hold a book: a git remote, PostgreSQL, and memory for tests."""
