"""Rows of shards as PyTorch tensors."""
