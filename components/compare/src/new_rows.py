"""Whether the held-out rows are new to a model: rows that trained it would flatter it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from wsshards.manifest import Manifest
from wsshards.provenance import describe_data
from wsshards.terms import DATE, TIME


def read_data(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model's MLmodel file says of the data that it was trained on."""
    value: Any = card
    for key in ("metadata", "worldsize", "data"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}


def explain_seen(data: Mapping[str, Any], manifest: Manifest, split: str) -> str | None:
    """Return why a model may have been trained on rows of a split; None if it was not.

    Args:
        data: what the model keeps of its data.
        manifest: of the shards.
        split: the part with the rows.
    """
    if split == "train":
        return "models are trained on the rows of the `train` split"
    if not data:
        return "it does not say what it was trained on"
    here = describe_data(manifest)
    if data.get("digest") == here["digest"]:
        return None
    if split != "test":
        return "it was trained on other data, whose training rows may be in the `validation` split"
    if data.get("test_digest") == here.get("test_digest"):
        return None
    return _explain_times(data, manifest)


def _explain_times(data: Mapping[str, Any], manifest: Manifest) -> str | None:
    """Return why a model may have been trained on rows as new as those that test."""
    division = manifest.division
    if division.method != TIME or division.test_from is None:
        return "it was trained on other data, and nothing tells which rows are newer: give `split_time`"
    if data.get("column") != division.column:
        return f"its rows were not divided by the time in `{division.column}`"
    end = _read_time(data.get("trained_before"), division.kind)
    if end is None:
        return "it does not say how new the rows are that it was trained on"
    if end > division.test_from:
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
