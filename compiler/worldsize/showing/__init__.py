"""How output looks, whoever shows it: curves and graphs."""
