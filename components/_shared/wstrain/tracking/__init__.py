"""What a training reports: to MLflow, to the terminal, to the live view."""
