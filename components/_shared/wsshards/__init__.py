"""Shards, for every component: the manifest, the reader, safe access to files, and errors."""
