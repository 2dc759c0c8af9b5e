"""How learning rate, Adam's betas, weight decay and warm-up follow the growth ``κ`` of the batch."""

from __future__ import annotations

import math

from msgspec import Struct

from worldsize.base.wording import round_noise
from worldsize.planning.model import Rule
from wstrain.scaling import rate_factor

# The largest batch for which the linear rule was seen to cost no accuracy (ImageNet, ResNet-50).
GOYAL_LARGEST_BATCH = 8192

SOURCES: dict[Rule, str] = {
    "linear": "linear rule, Goyal et al. 2017",
    "sqrt": "square-root rule, Malladi et al. 2022",
    "none": "rule none: the rate stays",
}


def scale_learning_rate(rule: Rule, kappa: float, reference: float) -> float:
    """The learning rate for a global batch ``κ`` times the reference batch.

    ``linear``: ``η′ = κη`` for SGD, with warm-up (Goyal et al. 2017, arXiv:1706.02677).
    ``sqrt``: ``η′ = √κ·η`` for Adam's family (Malladi et al. 2022, arXiv:2205.10287).
    """
    return round_noise(reference * rate_factor(rule, kappa))


class Adam(Struct, frozen=True):
    """The betas and epsilon of an optimizer of Adam's family; None for those that it does not have."""

    beta1: float | None
    beta2: float | None
    epsilon: float | None


def scale_adam(adam: Adam, kappa: float) -> Adam:
    """The betas and epsilon for the square-root rule, which are suggested and not applied.

    ``β₁′ = 1 − κ(1 − β₁)``, ``β₂′ = 1 − κ(1 − β₂)``, ``ε′ = ε/√κ`` (Malladi et al. 2022). A beta for which
    ``κ(1 − β) ≥ 1`` has no counterpart and becomes None.
    """
    return Adam(
        beta1=_scale_beta(adam.beta1, kappa),
        beta2=_scale_beta(adam.beta2, kappa),
        epsilon=None if adam.epsilon is None else round_noise(adam.epsilon / math.sqrt(kappa)),
    )


def _scale_beta(beta: float | None, kappa: float) -> float | None:
    if beta is None or not holds_for_beta(beta, kappa):
        return None
    return round_noise(1 - kappa * (1 - beta))


def holds_for_beta(beta: float, kappa: float) -> bool:
    """Whether the square-root rule holds for a beta: ``κ(1 − β) < 1``, so κ < 10 for β₁ = 0.9."""
    return round_noise(kappa * (1 - beta)) < 1


def scale_weight_decay(decay: float, kappa: float, reference: float, learning_rate: float) -> float:
    """The decoupled weight decay that keeps AdamW's averaging time ``τ = B/(ηλD)``: ``λ′ = λκη/η′``.

    Source: Bergsma et al. 2025, "Power Lines", arXiv:2505.13738.
    """
    return round_noise(decay * kappa * reference / learning_rate)


def batch_growth(global_batch: int, reference_batch: int) -> float:
    """``κ = G / reference batch``, without unit; with 1 nothing is scaled."""
    return round_noise(global_batch / reference_batch)
