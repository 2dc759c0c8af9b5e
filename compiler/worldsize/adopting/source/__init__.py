"""The text of a script, and the edits that are collected for it."""
