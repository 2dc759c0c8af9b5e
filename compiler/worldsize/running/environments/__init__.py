"""What interprets the steps of a run: this Python, a layer over it for each environment, or a container."""
