"""Counts of a training: micro-batch, accumulation and global batch (``G = b·a·W``), steps and shards.

Source: DeepSpeed's identity, train_batch_size = micro_batch_per_gpu × gradient_accumulation_steps × GPUs.
"""

from __future__ import annotations

from msgspec import Struct

from wstrain.data import step_counts


def global_batch(per_device: int, accumulation: int, world_size: int) -> int:
    """``G = b·a·W``, the samples behind one optimizer step."""
    return per_device * accumulation * world_size


def nearest_multiples(wanted: int, unit: int) -> tuple[int, ...]:
    """The multiples of ``unit`` next to ``wanted``: below and above it, or only above if none is below."""
    below = wanted // unit * unit
    above = below + unit
    if below == wanted:
        return (wanted,)
    return (below, above) if below else (above,)


class Steps(Struct, frozen=True):
    """Optimizer steps; None if rows or epochs are unknown."""

    per_epoch: int | None
    total: int | None
    warmup: int | None


def count_steps(
    rows: int | None,
    global_batch: int,
    epochs: float | None,
    warmup_epochs: float,
    *,
    drop_last: bool = True,
) -> Steps:
    """Count the steps per epoch, in total, and of the warm-up; what is None is unknown before the run."""
    if rows is None:
        return Steps(None, None, 0 if warmup_epochs == 0 else None)
    counted = rows if drop_last else rows + global_batch - 1  # the incomplete batch is a step too
    per_epoch = step_counts.steps_per_epoch(counted, global_batch)
    total = None if epochs is None else step_counts.total_steps(epochs, per_epoch)
    return Steps(per_epoch, total, step_counts.warmup_steps(warmup_epochs, per_epoch))


def count_shards_per_rank(world_size: int, loader_workers: int, rows: int | None) -> int:
    """Count the shards of each rank: one per loader worker, fewer if there are few rows, at least one."""
    wanted = max(loader_workers, 1)
    return wanted if rows is None else max(1, min(wanted, rows // world_size))
