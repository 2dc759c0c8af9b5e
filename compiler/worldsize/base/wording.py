"""Wording that the messages of several layers share: numbers, counts, lists of names, long texts."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from pathlib import Path

# Errors of the machine, not of worldsize: no space, no permission, too many open files, a broken disk.
MACHINE_ERRORS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EIO,
    }
)


def round_noise(value: float) -> float:
    """Round to twelve significant digits: 0.1 × 3 is 0.3, not 0.30000000000000004."""
    return float(f"{value:.12g}")


def drop_fraction(value: float) -> float:
    """A whole number without ``.0``, so that an input of type integer takes it."""
    return int(value) if value == int(value) else value


def show_number(value: float | str | None) -> str:
    """A number for a message or a table: ``0.4``, ``256``, ``1e-05``; whole floats lose their ``.0``."""
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e15 else repr(value)
    return str(value)


def show_digits(value: float) -> str:
    """Three digits that count, thousands with commas."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def plural(count: float, noun: str) -> str:
    """``1 instance``, ``2 instances``, ``2 processes``."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{show_number(count)} {noun}{ending}"


def format_size(count: int) -> str:
    """``12 B``, ``3.4 kB``, ``1.2 GB``: powers of a thousand, as files are listed."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 99.5 else f"{value:.1f} {units[0]}"


def shorten(text: str, width: int = 100) -> str:
    """A text on one line, cut to ``width`` characters with an ellipsis at the end."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def count_equal(first: str, second: str) -> int:
    """The number of characters with which both texts begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(first), len(second)))


def quoted_list(names: Iterable[str], limit: int = 12) -> str:
    """Names in back-ticks, separated by commas; a long list says how many are left out."""
    all_names = list(names)
    text = ", ".join(f"`{name}`" for name in all_names[:limit])
    left = len(all_names) - limit
    return f"{text} and {left} more" if left > 0 else text


def join_words(words: Sequence[str], last: str = "or") -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def describe_os_error(error: OSError, *, file: bool = False) -> str:
    """The reason that the operating system gives, in lower case: ``no space left on device``.

    With ``file`` it also names the file, if one is known: ``no space left on device (`train.py`)``.
    """
    name = f" (`{Path(error.filename).name}`)" if file and isinstance(error.filename, str) else ""
    return (error.strerror or str(error)).lower() + name


def format_memory(size: int) -> str:
    """Memory: ``12.3 GiB``, ``340 MiB`` below one, ``12 KiB`` below one of these."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{-(-size // 2**10)} KiB"


def format_duration(seconds: float) -> str:
    """How long something took: ``0.4 s``, ``12.3 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def format_seconds(seconds: float) -> str:
    """A calculated time, to three digits: ``3.66 ms``, ``2.51 s``, ``2 min 05 s``."""
    if seconds < 1:
        return f"{show_digits(seconds * 1000)} ms"
    return f"{show_digits(seconds)} s" if seconds < 60 else format_duration(seconds)


def format_age(seconds: float) -> str:
    """How long ago: ``40 s``, ``12 min``, ``5 h``, ``3 d``."""
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{max(0, round(seconds / size))} {unit}"
    return f"{seconds / 86400:.0f} d"
