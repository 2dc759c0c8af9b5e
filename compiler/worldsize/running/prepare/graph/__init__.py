"""Reads a pipeline for a run: nested graphs as one set of tasks."""
