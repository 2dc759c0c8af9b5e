"""Pipelines that are written in Python with azure-ai-ml: planned, checked and run like those in YAML."""
