"""The engines that can hold a book: a git remote, NATS JetStream, PostgreSQL, and memory for tests."""
