"""Diagnostics: what is wrong, where, and how to fix it; for people and for programs."""
