"""Schedules: when they are due, how they are stored and answered, and the jobs that they start."""
