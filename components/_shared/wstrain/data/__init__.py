"""Which samples each step takes, and what a sample is."""
