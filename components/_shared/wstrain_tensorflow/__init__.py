"""Training with TensorFlow: its own loop, around the same sampler, schedule, recorder and checkpoints."""
