"""The edits that make a training loop distributed, each for a reason."""
