"""Reads the user's data within a budget: formats, columns, rows, labels and how many of them train."""

from __future__ import annotations

from msgspec import Struct


class TableCount(Struct, frozen=True):
    """What sharding makes of local data: training rows, the task and why, and the shape of a sample."""

    rows: int
    task: str = ""  # unknown where no label decides it
    reason: str = ""
    width: int = 0  # numbers that a model gets, 0 where they are not columns
    outputs: int = 0
