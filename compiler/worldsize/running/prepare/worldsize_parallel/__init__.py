"""The driver of a parallel step: mini-batches, the processes that work on them, and what they return.

A separate program (``python -m worldsize_parallel``) that runs in the step's own interpreter. It needs the
standard library only; tables need pandas.
"""
