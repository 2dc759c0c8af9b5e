"""Which columns of a table are features, and what is wrong with their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wsshards.errors import UserError, clip_text
from wssources.request import Request, suggest

MAX_COLUMNS = 100_000  # of a table; pyarrow needs 5 KB for each


def choose_columns(request: Request, file: Path, columns: Sequence[str]) -> list[str]:
    """Return the feature columns of a table: the requested ones, or all except the label.

    Raises:
        UserError: the label or a feature is not a column, no feature is left, or there are too many.
    """
    if len(columns) > MAX_COLUMNS:
        raise UserError(
            f"`{request.show(file)}` has {len(columns):,} columns, and may have {MAX_COLUMNS:,}",
            "keep the features of a row as one list of numbers, in Parquet, JSON Lines or `.npz`",
        )
    counts = Counter(columns)
    for name in (request.label, *request.features):
        if name not in counts:
            kind = "label" if name == request.label else "feature"
            raise UserError(
                f"`{request.show(file)}` has no {kind} column `{clip_text(name)}`", suggest(name, columns)
            )
    if request.label in request.features:
        raise UserError(
            f"column `{request.label}` is both the label and a feature",
            "leave it out of `features`: a model that sees the answer learns nothing",
        )
    chosen = list(request.features) or [name for name in columns if name != request.label]
    if not chosen:
        raise UserError(
            f"`{request.show(file)}` has no column but the label `{request.label}`",
            "add at least one column of numbers",
        )
    repeated = min((name for name in (*chosen, request.label) if counts[name] > 1), default=None)
    if repeated is not None:
        raise UserError(
            f"`{request.show(file)}` has two columns called `{clip_text(repeated)}`",
            "give every column its own name",
        )
    return chosen


def same_columns(
    request: Request, first: Path, expected: Sequence[str], file: Path, columns: Sequence[str]
) -> None:
    """Raise UserError if a file lacks a column that the first file has."""
    there = set(columns)
    missing = next((name for name in expected if name not in there), None)
    if missing is not None:
        raise UserError(
            f"`{request.show(file)}` has no column `{clip_text(missing)}`, but `{request.show(first)}` has",
            "files of one data set must have the same columns",
        )
