"""How events become bytes of a line and bytes become events."""
