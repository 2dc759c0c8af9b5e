"""Reads the CSV files in this folder."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

_FOLDER = Path(__file__).resolve().parent
_SWITCHES = {"yes": "true", "no": "false"}
T = TypeVar("T")


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of ``<name>.csv``, cells as text."""
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def index_rows(name: str, key: str = "name") -> dict[str, dict[str, str]]:
    """The rows of ``<name>.csv`` by the cells of a column."""
    return {row[key]: row for row in read_rows(name)}


def convert_row(row: Mapping[str, str], kind: type[T]) -> T:
    """A row as a class whose fields are columns; an empty cell leaves the field its default."""
    cells = {name: _SWITCHES.get(cell, cell) for name, cell in row.items() if cell}
    return msgspec.convert(cells, kind, strict=False)
