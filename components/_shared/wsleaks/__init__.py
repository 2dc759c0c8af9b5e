"""Leaks: columns that alone tell the label, as what is known only after the event does."""
