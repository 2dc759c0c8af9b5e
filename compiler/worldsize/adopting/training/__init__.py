"""What trains in a script: its loops, loaders and optimizer."""
