"""Which values the next trial gets: random, Sobol, the whole grid, or Bayesian.

Random draws and grids need the standard library only. Sobol points are SciPy's, Bayesian sampling is
Optuna's tree-structured Parzen estimator (Bergstra et al., 2011), which learns from the trials that have
ended. With the same seed random, Sobol and grid give the same trials each time; Bayesian sampling does so
where one trial runs at a time, because otherwise it depends on which ends first.
"""

from __future__ import annotations

import importlib
import itertools
import math
import random
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

from worldsize.running.sweep.plan import SweepPlan
from worldsize.running.sweep.space import Parameter, Value

Values = dict[str, Value]


class Sampler(Protocol):
    """Asked for the values of each trial in turn, and told what came of it."""

    def ask(self, number: int) -> Values | None:
        """The values of a trial; None where nothing is left to try. Numbers count up from 0."""

    def tell(self, number: int, value: float | None) -> None:
        """The best metric of an ended trial; None for one that failed or logged none."""


def make(plan: SweepPlan) -> Sampler:
    """The sampler of a plan, whose library is installed: reading the plan has looked."""
    if plan.algorithm == "bayesian":
        return _Bayesian(plan)
    if plan.algorithm == "grid":
        return _Listed(_grid(plan.parameters))
    draw = _sobol if plan.algorithm == "sobol" else _random
    return _Listed(draw(plan))


class _Listed:
    """Trials that do not depend on each other."""

    def __init__(self, trials: Iterator[Values]) -> None:
        self._trials = trials

    def ask(self, number: int) -> Values | None:
        del number
        return next(self._trials, None)

    def tell(self, number: int, value: float | None) -> None:
        """Nothing is learnt."""


def _random(plan: SweepPlan) -> Iterator[Values]:
    source = random.Random(plan.seed)  # noqa: S311 - nothing secret
    while True:
        yield {parameter.name: parameter.at(source.random()) for parameter in plan.parameters}


def _grid(parameters: tuple[Parameter, ...]) -> Iterator[Values]:
    """Every combination; the last parameter changes fastest."""
    for values in itertools.product(*(parameter.values for parameter in parameters)):
        yield dict(zip((parameter.name for parameter in parameters), values, strict=True))


def _sobol(plan: SweepPlan) -> Iterator[Values]:
    """Scrambled Sobol points, which fill the space more evenly than random ones (Owen, 1998)."""
    qmc = importlib.import_module("scipy.stats.qmc")
    engine = qmc.Sobol(len(plan.parameters), scramble=True, rng=plan.seed)
    points = engine.random_base2(math.ceil(math.log2(max(2, plan.max_total_trials))))
    return iter(
        [
            {
                parameter.name: parameter.at(float(x))
                for parameter, x in zip(plan.parameters, point, strict=True)
            }
            for point in points
        ]
    )


class _Bayesian:
    """Optuna, asked and told."""

    def __init__(self, plan: SweepPlan) -> None:
        import optuna  # noqa: PLC0415 - only for this kind of sampling

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        self._parameters = plan.parameters
        self._space = {parameter.name: _distribution(parameter, optuna) for parameter in plan.parameters}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the liar is marked experimental
            # Trials that still run count as bad ones, so that those beside them look elsewhere.
            sampler = optuna.samplers.TPESampler(seed=plan.seed, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler, direction=plan.goal)
        self._asked: dict[int, Any] = {}

    def ask(self, number: int) -> Values | None:
        trial = self._study.ask(self._space)
        self._asked[number] = trial
        return {
            parameter.name: _value(parameter, trial.params[parameter.name]) for parameter in self._parameters
        }

    def tell(self, number: int, value: float | None) -> None:
        trial = self._asked.pop(number)
        if value is None or not math.isfinite(value):
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, value)


def _distribution(parameter: Parameter, optuna: Any) -> Any:
    """Choices by their index, because Optuna takes no two equal ones; the others before rounding."""
    if parameter.kind == "choice":
        return optuna.distributions.CategoricalDistribution(range(len(parameter.values)))
    return optuna.distributions.FloatDistribution(parameter.first, parameter.second)


def _value(parameter: Parameter, drawn: Any) -> Value:
    return parameter.values[drawn] if parameter.kind == "choice" else parameter.finish(float(drawn))
