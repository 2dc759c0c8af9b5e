"""Parallel jobs on this machine: an ordinary step whose command is our driver of mini-batches."""
