"""What every layer may use: places in files, problems, budgets of time, suggestions. Imports nothing else."""
