"""Run a pipeline, resume a run, or show what would be started."""
