"""The order of a sweep's trials."""

from __future__ import annotations

from worldsize.reporting.model import SweepFacts, TrialFacts


def rank_trials(sweep: SweepFacts) -> list[TrialFacts]:
    """The trials by their values, the best first; those without one come last."""
    if not sweep.goal:
        return list(sweep.trials)
    sign = -1 if sweep.goal.lower() == "maximize" else 1
    return sorted(sweep.trials, key=lambda trial: (trial.value is None, sign * (trial.value or 0.0)))
