"""The run history of jobs: what clients stream, download and list."""
