"""Worldsize: from a declarative spec to a distributed-training pipeline for Azure Machine Learning."""
