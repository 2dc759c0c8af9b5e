"""The tags of a registered version: the plan, the metrics, the source commit and the gate."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from typing import Any

from wsshards.errors import UserError

_COMMIT_TAGS = ("mlflow.source.git.commit", "azureml.git.commit")
_LIMITS = "worldsize.data.test_below."  # one for each class, which `compare` reads in the model
_LONGEST = 256  # characters of a value that Azure ML keeps
_MAX_METRICS = 500  # a classifier can have hundreds of classes; the overall metrics come first


def version_tags(
    card: Mapping[str, Any], metrics: Mapping[str, float], run_tags: Mapping[str, str], gate: str, more: str
) -> dict[str, str]:
    """Collect the tags of a model version.

    Args:
        card: the MLmodel file; `metadata.worldsize` holds the plan as training knew it.
        metrics: the measured metrics.
        run_tags: tags of the run that registers.
        gate: the conditions that the metrics passed, or empty.
        more: the user's own tags, `name=value` separated by semicolons.

    Raises:
        UserError: one of the user's tags is not `name=value`.
    """
    tags = _flatten("worldsize", (card.get("metadata") or {}).get("worldsize") or {})
    tags |= {f"metric.{name}": f"{value:.6g}" for name, value in islice(metrics.items(), _MAX_METRICS)}
    commit = next((run_tags[name] for name in _COMMIT_TAGS if run_tags.get(name)), "")
    commit = commit or os.environ.get("WORLDSIZE_SOURCE_COMMIT", "")
    if commit:
        tags["source.commit"] = commit
    if gate:
        tags["gate"] = gate
    tags = {name: value for name, value in tags.items() if not name.startswith(_LIMITS)}
    return {name: value[:_LONGEST] for name, value in (tags | _parse_tags(more)).items()}


def _flatten(prefix: str, value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        flat: dict[str, str] = {}
        for name, inner in value.items():
            flat |= _flatten(f"{prefix}.{name}", inner)
        return flat
    return {} if value is None else {prefix: f"{value:.6g}" if isinstance(value, float) else str(value)}


def _parse_tags(text: str) -> dict[str, str]:
    tags = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise UserError(
                f"tag `{part}` is not `name=value`", "write tags such as `team=vision; stage=trial`"
            )
        tags[name.strip()] = value.strip()
    return tags
