"""Hyperparameter sweeps on this machine: what to try (pure), and the trials as tasks of the run."""
