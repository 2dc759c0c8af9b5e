"""The command line: each sub-command is a file of this folder, imported only when it is called."""

from __future__ import annotations

from worldsize.cli.main import main

__all__ = ["main"]
