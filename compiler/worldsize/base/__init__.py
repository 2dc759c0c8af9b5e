"""What every layer may use: positions in files, problems, time budgets, suggestions. Imports nothing else."""
