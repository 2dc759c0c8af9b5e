"""MLflow's database in a home: its only reader and writer beside MLflow itself."""
