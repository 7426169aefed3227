"""The checks of `tallybook doctor`: one module for each thing that is checked."""
