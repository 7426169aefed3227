"""The project around a command: its folders, git, worktrees, settings and templates."""
