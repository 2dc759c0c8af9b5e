"""Which columns of a table are features, and what is wrong with their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wsshards.errors import UserError, clip_text
from wssources.input_error import suggest
from wssources.request import Request
from wssources.tasks import split_label

MAX_COLUMNS = 100_000  # of a table; pyarrow needs 5 KB for each


def choose_columns(request: Request, file: Path, columns: Sequence[str]) -> list[str]:
    """Return the feature columns: the requested ones, or all except labels and what splits the rows.

    Raises:
        UserError: a label, a feature or a column of the split is missing, or no feature is left.
    """
    if len(columns) > MAX_COLUMNS:
        raise UserError(
            f"`{request.show(file)}` has {len(columns):,} columns, and may have {MAX_COLUMNS:,}",
            "keep the features of a row as one list of numbers, in Parquet, JSON Lines or `.npz`",
        )
    labels, counts = split_label(request.label, columns), Counter(columns)
    dividing = request.split.columns if request.split else ()
    for kind, names in (("label", labels), ("feature", request.features), ("split", dividing)):
        unknown = next((name for name in names if name not in counts), None)
        if unknown is not None:
            raise UserError(
                f"`{request.show(file)}` has no {kind} column `{clip_text(unknown)}`",
                suggest(unknown, columns),
            )
    both = next((name for name in labels if name in request.features), None)
    if both is not None:
        raise UserError(
            f"column `{clip_text(both)}` is both the label and a feature",
            "leave it out of `features`: a model that sees the answer learns nothing",
        )
    left_out = {*labels, *dividing}
    chosen = list(request.features) or [name for name in columns if name not in left_out]
    if not chosen:
        raise UserError(
            f"`{request.show(file)}` has no column but the label `{clip_text(request.label)}`",
            "add at least one column of features",
        )
    if "" in chosen:
        raise UserError(
            f"column {columns.index('') + 1} of `{request.show(file)}` has no name, as pandas writes its row"
            " numbers",
            "name it, take it out (`index=False` in pandas), or name the other columns in `features`",
        )
    repeated = min((name for name in (*chosen, *labels, *dividing) if counts[name] > 1), default=None)
    twice = repeated or next((name for name, count in Counter(chosen).items() if count > 1), None)
    if repeated is not None:
        raise UserError(
            f"`{request.show(file)}` has two columns called `{clip_text(repeated)}`",
            "give every column its own name",
        )
    if twice is not None:
        raise UserError(f"`features` names column `{clip_text(twice)}` twice", "name it once")
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
