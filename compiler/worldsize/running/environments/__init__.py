"""The environments of steps: this Python, a layer over it for each environment, or a container."""
