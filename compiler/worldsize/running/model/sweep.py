"""A sweep as data: its search space, its goal and limits, and its early termination policy.

Each parameter is a distribution that turns a number of [0, 1) into a value. The kinds and their definitions
are Azure ML's (Microsoft Learn, "Hyperparameter tuning a model", section "Define the search space"):
``quniform`` is ``round(uniform(min_value, max_value) / q) * q``, ``loguniform`` is
``exp(uniform(min_value, max_value))``, and so on for the normal ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from worldsize.azureml.sweep import multiply_step

Value = str | int | float | bool

SMALLEST = 2.0**-53  # keeps the inverse of the normal distribution finite
LARGEST_EXPONENT = 700.0  # of e, before a double overflows

Goal = Literal["minimize", "maximize"]
Algorithm = Literal["random", "sobol", "grid", "bayesian"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    ``first`` and ``second`` are min_value and max_value, or mu and sigma, of the kind; a randint has its
    ``upper`` in ``second``.
    """

    name: str
    kind: str
    values: tuple[Value, ...] = ()
    first: float = 0.0
    second: float = 0.0
    q: float | None = None
    base: float = math.e  # of the logarithmic kinds
    whole: bool = False  # every setting is an integer, and so is every value

    def at(self, position: float) -> Value:
        """The value at a position of the cumulative distribution, in [0, 1)."""
        if self.kind == "choice":
            return self.values[min(int(position * len(self.values)), len(self.values) - 1)]
        if self.kind == "randint":
            return min(int(position * self.second), int(self.second) - 1)
        return self.finish(self._plain(position))

    def finish(self, drawn: float) -> Value:
        """Transform a draw from the underlying uniform or normal distribution."""
        if "log" in self.kind:
            drawn = math.exp(min(drawn * math.log(self.base), LARGEST_EXPONENT))
        if self.q is None:
            return drawn
        return multiply_step(round(drawn / self.q), self.q, whole=self.whole)

    def _plain(self, position: float) -> float:
        if "normal" not in self.kind:
            return self.first + (self.second - self.first) * position
        if self.second == 0:
            return self.first
        return NormalDist(self.first, self.second).inv_cdf(min(max(position, SMALLEST), 1 - SMALLEST))


@dataclass(frozen=True, slots=True)
class EarlyTermination:
    """A policy as written; settings that its kind does not use keep their defaults."""

    kind: Literal["bandit", "median_stopping", "truncation_selection"]
    evaluation_interval: int = 1
    delay_evaluation: int = 0
    slack_factor: float | None = None
    slack_amount: float | None = None
    truncation_percentage: int = 0
    exclude_finished_jobs: bool = False

    def last_due(self, logged: int) -> int:
        """The latest interval at which the policy applies, by the number of logged intervals; 0 if none."""
        due = logged - logged % self.evaluation_interval
        return due if due >= self.delay_evaluation else 0


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A sweep. Times are in seconds; None is without limit."""

    parameters: tuple[Parameter, ...]
    algorithm: Algorithm
    goal: Goal
    primary_metric: str
    max_total_trials: int
    max_concurrent_trials: int
    seed: int = 0  # the same trials each time, unless another one is given
    timeout: int | None = None
    trial_timeout: int | None = None
    policy: EarlyTermination | None = None

    @property
    def names(self) -> frozenset[str]:
        """The inputs of the trial that the sweep sets, so that the step need not."""
        return frozenset(parameter.name for parameter in self.parameters)
