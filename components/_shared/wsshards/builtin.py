"""The data sets that need no download, and how many rows they have.

The compiler plans steps from these counts before anything runs, so they may depend on nothing but what
the spec says: not on the Python that happens to run the job.
"""

from __future__ import annotations

DIGITS = "builtin:digits"
PYTHON_SOURCE = "builtin:python-source"
SOURCES = (DIGITS, PYTHON_SOURCE)

# scikit-learn's handwritten digits: images of each digit 0 … 9, 1,797 in all.
DIGITS_ROWS = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)

# Every Python from 3.10 on carries at least 8 MiB of library text; half of that is always there.
PYTHON_SOURCE_BYTES = 4 * 1024 * 1024


def rows_per_class(source: str, sequence_length: int) -> tuple[int, ...]:
    """Rows of each class of a built-in source; a language model's rows are one class.

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
    """Rows in `size` bytes of text: whole windows of `sequence_length + 1` bytes that do not overlap."""
    if sequence_length < 1:
        raise ValueError(f"sequence_length must be at least 1, got {sequence_length}")
    return size // (sequence_length + 1)
