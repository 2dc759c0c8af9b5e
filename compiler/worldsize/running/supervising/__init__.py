"""Processes that run: started, watched, and ended with whatever they started."""
