"""What a pipeline file means when it is run: graphs inside graphs as one set of tasks."""
