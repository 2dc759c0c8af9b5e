"""A saved MLflow model: read from its folder, and given rows of shards."""
