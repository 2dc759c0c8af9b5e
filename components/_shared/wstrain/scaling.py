"""What a training derives from the rest of its plan: batches that were left open, and the learning rate.

A sweep over the batch size has one plan for all trials, so each trial derives its own numbers here. The
planner uses the same functions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wsshards.errors import UserError

RULES = ("none", "linear", "sqrt")


class Batches(NamedTuple):
    """Samples per device and per optimizer step; ``accumulation`` counts micro-batches."""

    per_device: int
    accumulation: int
    global_batch: int


class Rates(NamedTuple):
    """The learning rate after the warm-up, and that at its start; None if both are the same."""

    peak: float
    reference: float | None


def split_batch(per_rank: int, largest: int) -> tuple[int, int]:
    """Split the samples of one rank into equal micro-batches, as few and as large as fit.

    Returns:
        ``(b, a)`` with ``b·a = per_rank = G / W`` and ``b`` the largest divisor not above ``largest``.

    Raises:
        ValueError: an argument is below 1.
    """
    if per_rank < 1 or largest < 1:
        raise ValueError(f"per_rank and largest must be at least 1, got {per_rank} and {largest}")
    small = [divisor for divisor in range(1, math.isqrt(per_rank) + 1) if per_rank % divisor == 0]
    divisors = [*small, *(per_rank // divisor for divisor in small)]
    per_device = max(divisor for divisor in divisors if divisor <= largest)
    return per_device, per_rank // per_device


def rate_factor(rule: str, kappa: float) -> float:
    """The factor of the learning rate: κ (linear, Goyal et al. 2017), √κ (sqrt, Malladi et al. 2022) or 1."""
    if rule == "linear":
        return kappa
    return math.sqrt(kappa) if rule == "sqrt" else 1.0


def complete_batches(per_device: int, accumulation: int, global_batch: int, replicas: int) -> Batches:
    """Derive what is 0 of the accumulation and the global batch.

    Args:
        per_device: samples per device; the most there may be if the accumulation is derived from the global
            batch.
        accumulation: micro-batches of an optimizer step, or 0.
        global_batch: samples of an optimizer step, or 0.
        replicas: copies of the model that share the global batch.

    Raises:
        UserError: the replicas cannot share the global batch equally.
    """
    if not accumulation and global_batch:
        per_rank, rest = divmod(global_batch, replicas)
        if rest or not per_rank:
            raise UserError(
                f"`global_batch_size` is {global_batch}, which {replicas} replicas cannot share equally",
                f"choose a multiple of {replicas}",
            )
        per_device, accumulation = split_batch(per_rank, per_device)
    accumulation = accumulation or 1
    return Batches(per_device, accumulation, global_batch or per_device * accumulation * replicas)


def complete_rates(
    peak: float, reference: float | None, rule: str, global_batch: int, reference_batch: int | None
) -> Rates:
    """Derive the learning rate from the one of the reference batch, or that at the start from the peak.

    Args:
        peak: the learning rate for the global batch, or 0 to derive it.
        reference: the rate that goes with the reference batch, None to derive it.
        rule: how the rate follows the batch: ``none``, ``linear`` or ``sqrt``.
        global_batch: samples of an optimizer step.
        reference_batch: samples of an optimizer step that the reference rate is for; None if unknown.

    Raises:
        UserError: ``peak`` is 0 and there is nothing to derive it from.
    """
    factor = rate_factor(rule, global_batch / reference_batch) if reference_batch else 1.0
    if peak:
        start = reference if reference is not None or not reference_batch else round_rate(peak / factor)
        return Rates(peak, start)
    if reference is None or (reference_batch is None and rule != "none"):
        raise UserError(
            "`learning_rate` is 0, and there is no reference to derive it from",
            "give `learning_rate`, or `reference_learning_rate` with `reference_batch_size`",
        )
    return Rates(round_rate(reference * factor), reference)


# Goyal et al. 2017, section 2.2, warm up over 5 of 90 epochs.
WARMUP_EPOCHS = 5.0
LARGEST_WARMUP_SHARE = 0.1


def default_warmup_epochs(rule: str, kappa: float, epochs: float | None) -> float:
    """The default epochs of warm-up: 5, but at most a tenth of the training.

    Only the linear rule needs it, and only where it raises the rate: no warm-up for ``κ ≤ 1``.
    """
    if rule != "linear" or kappa <= 1:
        return 0.0
    return WARMUP_EPOCHS if epochs is None else round_rate(min(WARMUP_EPOCHS, LARGEST_WARMUP_SHARE * epochs))


def round_rate(value: float) -> float:
    """A rate without the noise of binary fractions: 0.1 × 3 is 0.3."""
    return float(f"{value:.12g}")
