"""What the PyTorch trainers share: models, the loop, strategies, checkpoints, export."""
