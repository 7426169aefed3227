"""Text templates that reach a model, shipped as package data; a file of the same name in the user's folder wins."""
