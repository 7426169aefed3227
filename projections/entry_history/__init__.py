"""What happened to entries: the view of status and stories, and the answers from it."""
