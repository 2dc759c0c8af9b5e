"""The rules: a table for each family, a page for each rule, and the checks."""
