"""What the training components share: data, launch, models, strategies, loop, checkpoints, tracking."""
