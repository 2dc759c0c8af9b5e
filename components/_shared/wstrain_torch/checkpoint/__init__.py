"""The state of a PyTorch training, saved and resumed."""
