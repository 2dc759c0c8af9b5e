"""Reports on runs: one run as a self-contained page, and two runs compared."""
