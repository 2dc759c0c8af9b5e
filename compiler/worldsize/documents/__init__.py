"""Texts with places: YAML as nodes with exact spans, findings and their renderers, secrets in either."""
