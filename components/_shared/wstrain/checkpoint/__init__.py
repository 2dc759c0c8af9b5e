"""Checkpoints on disk: written, retained, found again."""
