"""Programs that run beside a step: each imports the standard library only, and the file beside it."""
