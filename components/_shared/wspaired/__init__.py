"""Paired statistics: how much better one model is than another on the same rows, and how sure that is."""
