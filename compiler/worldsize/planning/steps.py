"""Training counted in optimizer steps, by the same functions that the trainer uses."""

from __future__ import annotations

from msgspec import Struct

from wstrain.data import step_counts


class Steps(Struct, frozen=True):
    """Optimizer steps; None where rows or epochs are unknown."""

    per_epoch: int | None
    total: int | None
    warmup: int | None


def steps(rows: int | None, global_batch: int, epochs: float | None, warmup_epochs: float) -> Steps:
    """Steps per epoch, in all, and of the warm-up.

    Args:
        rows: training rows, None where they are known only once the data is there.
        global_batch: samples per step.
        epochs: passes over the rows, None where unknown.
        warmup_epochs: epochs of warm-up.
    """
    if rows is None:
        return Steps(None, None, 0 if warmup_epochs == 0 else None)
    per_epoch = step_counts.steps_per_epoch(rows, global_batch)
    total = None if epochs is None else step_counts.total_steps(epochs, per_epoch)
    return Steps(per_epoch, total, step_counts.warmup_steps(warmup_epochs, per_epoch))
