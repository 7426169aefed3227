"""The project around a command: its folders, git, worktrees, settings, templates and caches."""
