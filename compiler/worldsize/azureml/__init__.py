"""Azure ML's vocabulary as data: job graphs, components, binding expressions; read and written as YAML."""

from __future__ import annotations
