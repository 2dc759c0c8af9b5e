"""From the launcher's environment to a group of ranks."""
