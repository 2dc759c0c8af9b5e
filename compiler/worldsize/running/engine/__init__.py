"""Runs the tasks: the schedule, one attempt of a step, restarts, and steps that expand into others."""
