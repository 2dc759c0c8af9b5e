"""The training library that needs no framework: data, checkpoints, health, launch, tracking, export."""
