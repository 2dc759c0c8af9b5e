"""Micro-batch, accumulation and global batch: ``G = b·a·W``, all counted in samples.

Source: DeepSpeed's identity, train_batch_size = micro_batch_per_gpu × gradient_accumulation_steps × GPUs.
"""

from __future__ import annotations

import math


def global_batch(per_device: int, accumulation: int, world_size: int) -> int:
    """``G = b·a·W``, the samples behind one optimizer step."""
    return per_device * accumulation * world_size


def nearest_multiples(wanted: int, unit: int) -> tuple[int, ...]:
    """The multiples of ``unit`` next to ``wanted``: below and above it, or above only where none is below."""
    below = wanted // unit * unit
    above = below + unit
    if below == wanted:
        return (wanted,)
    return (below, above) if below else (above,)


def split_batch(per_rank: int, most: int) -> tuple[int, int]:
    """Share the samples of one rank into equal micro-batches, as few and as large as fit.

    Args:
        per_rank: samples a rank takes per optimizer step, ``G / W``.
        most: the largest micro-batch known to fit a device.

    Returns:
        ``(b, a)`` with ``b·a = per_rank`` and ``b`` the largest divisor not above ``most``.

    Raises:
        ValueError: an argument is below 1.
    """
    if per_rank < 1 or most < 1:
        raise ValueError(f"per_rank and most must be at least 1, got {per_rank} and {most}")
    small = [divisor for divisor in range(1, math.isqrt(per_rank) + 1) if per_rank % divisor == 0]
    divisors = [*small, *(per_rank // divisor for divisor in small)]
    per_device = max(divisor for divisor in divisors if divisor <= most)
    return per_device, per_rank // per_device
