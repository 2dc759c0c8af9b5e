"""How long training lasts, counted in steps: the one copy that the compiler and the trainer share.

Nothing here imports more than the standard library, so planning stays instant. A *step* is one
optimizer update, that is one global batch of ``G`` samples. An epoch drops the last, incomplete
global batch, so every rank takes the same number of steps and no rank waits for another.
"""

from __future__ import annotations

import math


def steps_per_epoch(rows: int, global_batch: int) -> int:
    """Return the optimizer steps in one epoch: ``⌊rows / G⌋``.

    Args:
        rows: training rows (samples).
        global_batch: samples per optimizer step, ``G = b·a·W``.

    Returns:
        The number of full global batches; 0 when there are fewer rows than one global batch, which
        the caller must report, as nothing could be learned.

    Raises:
        ValueError: ``rows`` is negative or ``global_batch`` is below 1.
    """
    if rows < 0:
        raise ValueError(f"rows must not be negative, got {rows}")
    if global_batch < 1:
        raise ValueError(f"global_batch must be at least 1, got {global_batch}")
    return rows // global_batch


def total_steps(epochs: float, steps_per_epoch: int) -> int:
    """Return the optimizer steps of the whole training: ``epochs × steps per epoch``, rounded half up.

    Args:
        epochs: passes over the training rows; a fraction ends in the middle of an epoch.
        steps_per_epoch: see :func:`steps_per_epoch`.

    Raises:
        ValueError: an argument is negative.
    """
    return _steps(epochs, steps_per_epoch, "epochs")


def warmup_steps(warmup_epochs: float, steps_per_epoch: int) -> int:
    """Return the optimizer steps over which the learning rate climbs, rounded half up.

    Args:
        warmup_epochs: length of the warm-up in epochs (Goyal et al. 2017 use 5); 0 means none.
        steps_per_epoch: see :func:`steps_per_epoch`.

    Raises:
        ValueError: an argument is negative.
    """
    return _steps(warmup_epochs, steps_per_epoch, "warmup_epochs")


def _steps(epochs: float, per_epoch: int, name: str) -> int:
    if epochs < 0 or not math.isfinite(epochs):
        raise ValueError(f"{name} must be a number of at least 0, got {epochs}")
    if per_epoch < 0:
        raise ValueError(f"steps_per_epoch must not be negative, got {per_epoch}")
    return _round_half_up(epochs * per_epoch)


def _round_half_up(value: float) -> int:
    # Python's round() goes to the even neighbour: 0.5 epochs of 5 steps would be 2, of 7 steps 4.
    return math.floor(value + 0.5)
