"""Whether the held-out rows are new to a model: rows that trained it would flatter it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from wsshards.manifest import Manifest
from wsshards.provenance import TEST_BELOW, describe_data
from wsshards.reader import ShardReader
from wsshards.terms import DATE, GROUP, HASH, TIME

_UNKNOWN = "it was trained on other data, and nothing tells which rows are newer: give `split_time`"


def read_data(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model's MLmodel file says of the data that it was trained on."""
    value: Any = card
    for key in ("metadata", "worldsize", "data"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class NewRows:
    """The rows of a split that are new to a model.

    Attributes:
        chosen: whether each row `[n]` is; None if all are.
        seen: why none is known to be.
    """

    chosen: npt.NDArray[np.bool_] | None = None
    seen: str | None = None


def find_new_rows(data: Mapping[str, Any], reader: ShardReader) -> NewRows:
    """Return which rows a model was neither trained nor validated on.

    Args:
        data: what the model keeps of its data.
        reader: of the rows.
    """
    if reader.split == "train":
        return NewRows(seen="models are trained on the rows of the `train` split")
    if not data:
        return NewRows(seen="it does not say what it was trained on")
    here = describe_data(reader.manifest)
    is_test = reader.split == "test"
    if data.get("digest") == here["digest"] or (
        is_test and data.get("test_digest") == here.get("test_digest")
    ):
        return NewRows()
    if not is_test:
        return NewRows(
            seen="it was trained on other data, whose training rows may be in the `validation` split"
        )
    if reader.manifest.division.method in (HASH, GROUP):
        return _find_by_hash(data, here, reader)
    return NewRows(seen=_explain_times(data, reader.manifest))


def _find_by_hash(data: Mapping[str, Any], here: Mapping[str, Any], reader: ShardReader) -> NewRows:
    """Return the rows that the model's data, if it had them, had in its test part.

    A row or group always keeps its hash. Of data that was divided by the same rule, a model was trained and
    validated on hashes from its limit on alone: rows below that are new to it, of whichever data it has seen.
    """
    rule, limits = here.get("rule"), data.get(TEST_BELOW)
    if rule is None or data.get("rule") is None:
        return NewRows(seen=_UNKNOWN)
    if data["rule"] != rule or not isinstance(limits, Mapping):
        return NewRows(seen="its rows were divided by another seed, from other columns or in another format")
    by_class = [int(limits.get(name, "0"), 16) for name in here[TEST_BELOW]]  # 0: no row of a new class
    below = np.array(by_class, np.uint64)
    return NewRows(reader.keys() < (below[reader.labels()] if len(below) > 1 else below[0]))


def _explain_times(data: Mapping[str, Any], manifest: Manifest) -> str | None:
    """Return why a model may have been trained on rows as new as those that test."""
    division = manifest.division
    if division.method != TIME or division.test_from is None:
        return _UNKNOWN
    if data.get("column") != division.column:
        return f"its rows were not divided by the time in `{division.column}`"
    end = _read_time(data.get("trained_before"), division.kind)
    if end is None:
        return "it does not say how new the rows are that it was trained on"
    if not end <= division.test_from:
        start = describe_data(manifest)["trained_before"]
        return f"it was trained on rows up to {data['trained_before']}, and these begin at {start}"
    return None


def _read_time(value: object, kind: str) -> float | None:
    """Return a time in the unit of the manifest: seconds since 1970-01-01 of a date, or a number."""
    if kind != DATE:
        return float(value) if isinstance(value, int | float) else None
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
