"""Diagnostics: what is wrong, where, and how to mend it; for people and for machines."""
