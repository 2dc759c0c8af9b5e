"""What stays of a run: its folder, events, record, history, and MLflow's."""
