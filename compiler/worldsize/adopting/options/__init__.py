"""The options of a script, and those that it gets."""
