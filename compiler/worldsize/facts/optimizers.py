"""Optimizers: the scaling rule of their learning rate, and their default betas."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct

from worldsize.facts import table

ScalingRule = Literal["linear", "sqrt"]


class Optimizer(Struct, frozen=True, kw_only=True):
    """One optimizer. Betas and epsilon are PyTorch's defaults, None if it has none."""

    name: str
    rule: ScalingRule
    beta1: float | None = None
    beta2: float | None = None
    epsilon: float | None = None
    source: str


def lookup(name: str) -> Optimizer | None:
    """Find an optimizer by name, ignoring case, ``_`` and ``-``: ``SGD``, ``adam_w``."""
    return _all().get(name.lower().replace("_", "").replace("-", ""))


def names() -> list[str]:
    """All names."""
    return [optimizer.name for optimizer in _all().values()]


@cache
def _all() -> dict[str, Optimizer]:
    return {row["name"]: table.convert_row(row, Optimizer) for row in table.read_rows("optimizers")}
