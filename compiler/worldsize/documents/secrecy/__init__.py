"""Recognises secrets by name, by form and by value, and keeps them out of all output."""
