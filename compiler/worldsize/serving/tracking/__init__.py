"""MLflow in the workspace: a stock server behind the workspace's paths, and readers of its database."""
