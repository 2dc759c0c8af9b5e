"""Metrics of predictions by task: exact, and the same however the rows are cut into blocks and ranks."""
