"""Where a project is and what it sets: folders, git, worktrees, settings."""
