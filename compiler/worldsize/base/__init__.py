"""What every layer may use: positions in files, problems, time budgets, suggestions, and how output looks.

It imports nothing else.
"""
