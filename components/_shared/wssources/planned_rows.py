"""How many rows the built-in data sets have, and how many rows a split holds out.

The compiler plans steps from these counts before anything runs, so they may depend on nothing but what
the spec says: not on the Python that happens to run the job.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

DIGITS = "builtin:digits"
PYTHON_SOURCE = "builtin:python-source"
SOURCES = (DIGITS, PYTHON_SOURCE)
ALL_OF_DATA = "."
# Inputs of `shard_data` that have a meaning for any source; the others say how files are read.
_OF_ANY_SOURCE = frozenset(
    {
        "source",
        "data",
        "shard_count",
        "validation_fraction",
        "test_fraction",
        "feed_stop",
        "feed_warn",
        "feed_thresholds",
        "feed_reference",
        "seed",
        "memory_limit_mib",
        "shards",
    }
)

# scikit-learn's handwritten digits: images of each digit 0 … 9, 1,797 in all.
DIGITS_ROWS = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)

# Every Python from 3.10 on carries at least 8 MiB of library text; half of that is always there.
PYTHON_SOURCE_BYTES = 4 * 1024 * 1024


def default_source(*, has_data: bool) -> str:
    """Return what is read where `source` is not given."""
    return ALL_OF_DATA if has_data else DIGITS


def first_of_files(given: Iterable[str]) -> str | None:
    """Return the first of the inputs that says how files are read, so that it needs `data`; else None."""
    return next((name for name in given if name not in _OF_ANY_SOURCE), None)


def rows_per_class(source: str, sequence_length: int) -> tuple[int, ...]:
    """Return the rows of each class of a built-in source; a language model's rows are one class.

    Args:
        source: one of `SOURCES`.
        sequence_length: tokens a language model predicts per row; a row has one byte more.

    Raises:
        ValueError: the source is not built in, or the length is below 1.
    """
    if source == DIGITS:
        return DIGITS_ROWS
    if source != PYTHON_SOURCE:
        raise ValueError(f"{source!r} is not one of {', '.join(SOURCES)}")
    return (text_rows(PYTHON_SOURCE_BYTES, sequence_length),)


def text_rows(size: int, sequence_length: int) -> int:
    """Return the rows in `size` bytes of text: whole windows of `sequence_length + 1` bytes, side by side."""
    if sequence_length < 1:
        raise ValueError(f"sequence_length must be at least 1, got {sequence_length}")
    return size // (sequence_length + 1)


def validation_rows(rows_per_class: Sequence[int], fraction: float) -> int:
    """Return the rows held out for validation by a stratified split.

    Each class gives ``fraction`` of its rows, rounded half up, but keeps at least one row on either
    side when it has two or more, and stays in training when it has only one. Data without classes is
    one class. The function is additive: the split of one class is ``validation_rows([rows], fraction)``.

    Args:
        rows_per_class: rows of each class.
        fraction: share to hold out, ``0 <= fraction < 1``.

    Raises:
        ValueError: a count is negative or the fraction is outside its range.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"fraction must be at least 0 and below 1, got {fraction}")
    if any(rows < 0 for rows in rows_per_class):
        raise ValueError(f"rows_per_class must not be negative, got {list(rows_per_class)}")
    if fraction == 0:
        return 0
    return sum(
        min(max(math.floor(rows * fraction + 0.5), 1), rows - 1) for rows in rows_per_class if rows > 1
    )


def held_out_rows(rows: int, validation: float, test: float) -> tuple[int, int]:
    """Return the rows of one class that validate and that test.

    Each part is :func:`validation_rows` of its fraction; the test part is taken first, and one row is always
    left for training.

    Args:
        rows: of the class.
        validation: share that validates.
        test: share that tests; both are less than 1 together.
    """
    tested = validation_rows([rows], test)
    if validation == 0 or rows - tested < 2:
        return 0, tested
    return min(max(math.floor(rows * validation + 0.5), 1), rows - tested - 1), tested


def divide_rows(rows_per_class: Sequence[int], validation: float, test: float) -> tuple[int, int, int]:
    """Return the rows of all classes that train, validate and test, by :func:`held_out_rows`."""
    held = [held_out_rows(rows, validation, test) for rows in rows_per_class]
    validated, tested = sum(each[0] for each in held), sum(each[1] for each in held)
    return sum(rows_per_class) - validated - tested, validated, tested
