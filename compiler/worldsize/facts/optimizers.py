"""Optimizers: the scaling rule of their learning rate, and their default betas."""

from __future__ import annotations

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
    row = table.index_rows("optimizers").get(name.lower().replace("_", "").replace("-", ""))
    return None if row is None else table.convert_row(row, Optimizer)


def names() -> list[str]:
    """All names."""
    return list(table.index_rows("optimizers"))
