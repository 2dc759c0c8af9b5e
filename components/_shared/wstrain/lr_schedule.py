"""The learning rate of every step, as a function of the step's number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Decay = Literal["cosine", "step", "constant", "warmup_stable_decay"]
DECAYS: tuple[Decay, ...] = get_args(Decay)


@dataclass(frozen=True, slots=True)
class LearningRateSchedule:
    """Linear warm-up from η to η′, then decay.

    The warm-up starts at the reference rate η and not at zero, as that rate is known to work (Goyal et al.
    2017, "Accurate, Large Minibatch SGD", section 2.2). Cosine decay is half a period, from η′ to zero
    (Loshchilov and Hutter 2017, "SGDR"). ``warmup_stable_decay`` stays at η′ and falls to zero over the last
    steps as ``1 − √progress`` (Hu et al. 2024, "MiniCPM", section 4; the shape is that of Hägele et al. 2024,
    "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations", section 3).

    Args:
        reference_rate: η, the rate that worked with the reference batch.
        peak_rate: η′, the scaled rate.
        warmup_steps: steps of the warm-up, 0 for none.
        total_steps: steps of the whole training.
        decay: what follows the warm-up.
        milestones: steps at which ``step`` decay multiplies the rate by ``factor``.
        factor: see ``milestones``.
        decay_fraction: share of all steps over which ``warmup_stable_decay`` falls; the warm-up is not cut.
    """

    reference_rate: float
    peak_rate: float
    warmup_steps: int
    total_steps: int
    decay: Decay = "cosine"
    milestones: Sequence[int] = ()
    factor: float = 0.1
    decay_fraction: float = 0.2

    def rate(self, step: int) -> float:
        """Learning rate of optimizer step ``step``, counted from 0."""
        if step < self.warmup_steps:
            return self.reference_rate + (self.peak_rate - self.reference_rate) * step / self.warmup_steps
        if self.decay == "constant":
            return self.peak_rate
        if self.decay == "step":
            return self.peak_rate * self.factor ** sum(step >= milestone for milestone in self.milestones)
        if self.decay == "warmup_stable_decay":
            decaying = min(
                round(self.decay_fraction * self.total_steps), self.total_steps - self.warmup_steps
            )
            return self.peak_rate * (1 - math.sqrt(self._progress(step, decaying)))
        progress = self._progress(step, self.total_steps - self.warmup_steps)
        return self.peak_rate * 0.5 * (1 + math.cos(math.pi * progress))

    def _progress(self, step: int, decaying: int) -> float:
        """Share of the last ``decaying`` steps that is over at ``step``."""
        begun = step - (self.total_steps - decaying)
        return min(begun / decaying, 1.0) if decaying > 0 and begun > 0 else 0.0
