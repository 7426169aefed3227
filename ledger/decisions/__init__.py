"""Pure deciders: payloads and what is known become events."""
