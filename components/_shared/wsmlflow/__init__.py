"""What components share that log to MLflow: trainers, evaluate and register."""
