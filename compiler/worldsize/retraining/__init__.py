"""Scheduled retraining: looks at the facts, decides on at most one action, and takes it."""
