"""What is said of weights that are matched by name, in any framework."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wsshards.errors import UserError

_SHOWN = 3  # names in a message
_CLOSEST = 5
Short = Callable[[str], str]


def expect_matches(weights: Mapping[str, Any], own: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Check that any weight was found under a name of the model.

    Args:
        weights: of `initial_model`, by name.
        own: those of the model.
        found: those of ``weights`` that the model has.

    Raises:
        UserError: there is none.
    """
    if found:
        return
    theirs, ours = (", ".join(f"`{name}`" for name in list(names)[:_SHOWN]) for names in (weights, own))
    raise UserError(
        f"no parameter of the model has a name of `initial_model`: {theirs} there, {ours} here",
        "train the same model that the weights are from",
    )


def expect_body(
    own: Mapping[str, Any], found: Mapping[str, Any], wrong: Sequence[str], short: Short = str
) -> None:
    """Report the weights below the last layer that are missing or of another shape.

    Args:
        own: weights of the model, with a ``shape``.
        found: those of `initial_model` under the same names.
        wrong: names of those that do not fit.
        short: gives a name as the user knows it.

    Raises:
        UserError: ``wrong`` is not empty.
    """
    if not wrong:
        return
    described = [
        f"`{short(name)}` has shape {list(found[name].shape)} there and {list(own[name].shape)} here"
        if name in found
        else f"`{short(name)}` {list(own[name].shape)} is missing there"
        for name in wrong[:_SHOWN]
    ]
    more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    raise UserError(
        f"`initial_model` does not fit the model: {'; '.join(described)}{more}",
        "use the same model with the same sizes; only its last layer may differ",
    )


def describe_loaded(
    source: str, own: Mapping[str, Any], found: Mapping[str, Any], new: Sequence[str], short: Short = str
) -> str:
    """Return what was loaded from ``source``, and which weights of the last layer are ``new``."""
    if not new:
        return f"initial weights: all of {source}"
    described = ", ".join(
        f"{short(name)} {list(own[name].shape)}"
        + (f" ({list(found[name].shape)} there)" if name in found else "")
        for name in new
    )
    return f"initial weights: {source}, but the last layer is new: {described}"


def suggest_names(pattern: str, names: Sequence[str]) -> str:
    """Return the help for a pattern that matches none of ``names``."""
    plain = pattern.replace("*", "").strip("./")
    close = difflib.get_close_matches(plain, names, n=_CLOSEST, cutoff=0.3) or names[:_CLOSEST]
    listed = ", ".join(f"`{name}`" for name in close)
    return f"the closest names are {listed}; `*` stands for anything"


def all_frozen_error(patterns: Sequence[str], tensors: int) -> UserError:
    """Return the error of `freeze` that leaves nothing to train."""
    listed = ", ".join(f"`{pattern}`" for pattern in patterns)
    return UserError(
        f"`freeze` leaves nothing to train: {listed} match all {tensors} tensors of the model",
        "leave the last layer out of the patterns",
    )
