"""The artifacts of runs and of uploads: where they lie, and the service through which clients reach them."""
