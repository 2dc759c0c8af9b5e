"""The name in the registry: given, or made of what the model's file says of its training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from wsshards.errors import UserError

UNKNOWN = "model"  # the name of a model that says nothing of its training
_LONGEST = 100  # characters of a derived name
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


def choose_model_name(given: str, card: Mapping[str, Any]) -> str:
    """Return the given name, or one of the data and the network such as ``digits-cnn``.

    Args:
        given: the input `model_name`, or empty.
        card: the MLmodel file; `metadata.worldsize` holds what training knew.

    Raises:
        UserError: the given name is blank, or holds `/` or `:`, which separate a name from its version.
    """
    if not given:
        return _derive(card)
    if not given.strip() or set("/:") & set(given):
        raise UserError(f"model name `{given}` is empty or holds `/` or `:`", "use letters, digits and `-`")
    return given


def _derive(card: Mapping[str, Any]) -> str:
    metadata = card.get("metadata")
    facts = metadata.get("worldsize") if isinstance(metadata, Mapping) else None
    named = [facts.get("source"), facts.get("model")] if isinstance(facts, Mapping) else []
    stems = (
        PurePosixPath(str(name).removeprefix("builtin:").partition(":")[0]).stem for name in named if name
    )
    parts = (_OTHER.sub("-", stem).strip("-._") for stem in stems)
    return "-".join(part for part in parts if part)[:_LONGEST] or UNKNOWN
