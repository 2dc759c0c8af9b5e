"""κ: by how much the global batch outgrows the batch that was tuned."""

from __future__ import annotations

from worldsize.planning.numbers import clean


def kappa(global_batch: int, reference_batch: int) -> float:
    """``κ = G / reference batch``, without unit; 1 means that nothing has to be scaled."""
    return clean(global_batch / reference_batch)
