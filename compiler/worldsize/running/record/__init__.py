"""What a run keeps on disk: its folder, events, request, history, and its record in MLflow."""
