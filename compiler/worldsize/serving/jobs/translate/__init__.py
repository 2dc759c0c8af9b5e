"""Turns the REST body of a job into Azure ML YAML: the graph that it was made from, checked alike."""
