"""Faults while steps run: hangs that are found, and faults that are made to happen on purpose."""
