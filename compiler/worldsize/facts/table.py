"""Reads the CSV files in this folder."""

from __future__ import annotations

import csv
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of ``<name>.csv``, cells as text."""
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def parse_cell(text: str) -> float | None:
    """A cell as a number, None if it is empty."""
    return float(text) if text else None
