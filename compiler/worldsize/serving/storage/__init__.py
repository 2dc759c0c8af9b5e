"""Azure's blob storage on files: what clients upload, what jobs write, and what both read."""
