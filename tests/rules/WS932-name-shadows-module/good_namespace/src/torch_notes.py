"""Notes on torch."""
