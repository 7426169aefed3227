"""What a session is given by other ways than hooks; what questions about lift withhold, and whether it helps."""
