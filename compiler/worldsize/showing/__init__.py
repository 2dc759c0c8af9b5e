"""How output looks, whoever shows it: tables, curves, graphs."""
