"""The read side: what the events mean, folded into views that can be thrown away and rebuilt."""
