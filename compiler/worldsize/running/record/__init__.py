"""Records a run: its folder, events, request and history on disk, and its record in MLflow."""
