"""`python -m worldsize` is `worldsize`."""

from __future__ import annotations

from worldsize.cli import main

main(prog_name="worldsize")
