"""Submitted jobs: their REST bodies become Azure ML YAML, which :mod:`worldsize.running` runs."""
