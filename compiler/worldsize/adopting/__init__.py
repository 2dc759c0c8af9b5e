"""From a training script for one GPU to the same script for a cluster: read, never run."""
