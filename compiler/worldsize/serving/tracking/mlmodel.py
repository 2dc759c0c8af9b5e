"""The flavors of a saved model, as Azure ML shows them of a registered one."""

from __future__ import annotations

from pathlib import Path

import yaml

from worldsize.base import untrusted

MAX_BYTES = 1 << 20  # of an MLmodel file that is read


def read_flavors(model: Path) -> dict[str, dict[str, dict[str, str]]] | None:
    """The flavors in ``MLmodel``, with their settings as text; None if the folder holds no MLflow model."""
    try:
        document = yaml.safe_load(untrusted.read_text(model / "MLmodel", MAX_BYTES))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    flavors = document.get("flavors") if isinstance(document, dict) else None
    if not isinstance(flavors, dict):
        return None
    return {str(name): {"data": _settings(flavor)} for name, flavor in flavors.items()}


def _settings(flavor: object) -> dict[str, str]:
    """The settings that are single values."""
    if not isinstance(flavor, dict):
        return {}
    return {
        str(name): str(value)
        for name, value in flavor.items()
        if value is not None and not isinstance(value, dict | list)
    }
