"""What a model keeps of the data that it was trained on, so that later data can be compared with it."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any

from wsshards.manifest import Manifest, Split
from wsshards.terms import DATE, SPLITS, TIME

_START = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_DIGITS = 16  # of a digest: 64 bits
TEST_BELOW = "test_below"
MAX_LIMITS = 1_000  # classes whose limits a model keeps


def describe_data(manifest: Manifest) -> dict[str, Any]:
    """Return the digests and rows of a folder of shards, and how its rows were divided.

    Returns:
        ``digest`` of all rows and ``test_digest`` of those that test, equal where rows and order are;
        ``rows``, ``validation_rows`` and ``test_rows``; ``division``, one of
        `wsshards.terms.DIVISIONS`; and where time divides rows ``column`` and ``trained_before``, a date in
        ISO 8601 or a number: all rows that train or validate are older. Where a hash divides rows ``rule``
        and ``test_below``, the hash in hexadecimal below which rows of each class test, or all as ``""``.
    """
    division = manifest.division
    facts: dict[str, Any] = {
        "digest": _digest(*(manifest.split(name) for name in SPLITS)),
        "test_digest": _digest(manifest.test) if manifest.test.rows else None,
        "rows": manifest.train.rows,
        "validation_rows": manifest.validation.rows,
        "test_rows": manifest.test.rows,
        "division": division.method,
        "column": division.column or None,
    }
    if division.method == TIME and division.test_from is not None:
        is_date = division.kind == DATE
        facts["trained_before"] = format_time(division.test_from) if is_date else division.test_from
    if division.rule and len(division.test_below) <= MAX_LIMITS:
        classes = manifest.label.classes if manifest.label and len(division.test_below) > 1 else ("",)
        limits = zip(classes, division.test_below, strict=True)
        facts |= {"rule": division.rule, TEST_BELOW: {name: f"{limit:x}" for name, limit in limits}}
    return {name: value for name, value in facts.items() if value is not None}


def format_time(seconds: float) -> str:
    """Return seconds since 1970-01-01 UTC as ISO 8601: a date alone at midnight.

    Raises:
        OverflowError: the year has more than four digits.
    """
    moment = _START + dt.timedelta(seconds=seconds)
    return moment.date().isoformat() if moment.time() == dt.time() else moment.isoformat()


def _digest(*splits: Split) -> str:
    text = "\n".join(shard.sha256 for split in splits for shard in split.shards)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
