"""The trials of a sweep: which values the next one gets, and its task.

Random draws and grids need the standard library only. Sobol points are SciPy's, Bayesian sampling is
Optuna's tree-structured Parzen estimator (Bergstra et al., 2011), which learns from the trials that have
ended. With the same seed, random, Sobol and grid sampling give the same trials each time. Bayesian sampling
does so only if one trial runs at a time, because otherwise it depends on which trial ends first.
"""

from __future__ import annotations

import importlib
import itertools
import math
import random
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

from msgspec import structs
from msgspec.structs import replace

from worldsize.azureml import binding, literals
from worldsize.azureml.model import Component, Field
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.model.source import Text
from worldsize.running.model.task import Parameter, SweepPlan, Task, Value

Values = dict[str, Value]


class Sampler(Protocol):
    """Gives the values of each trial in turn, and learns from the results."""

    def ask(self, number: int) -> Values | None:
        """The values of a trial, counting from 0; None if no values are left."""

    def tell(self, number: int, value: float | None) -> None:
        """Take the best metric of an ended trial; None if it failed or logged none."""


def make_sampler(plan: SweepPlan) -> Sampler:
    """Make the sampler of a plan; reading the plan has checked that its library is installed."""
    if plan.algorithm == "bayesian":
        return _Bayesian(plan)
    if plan.algorithm == "grid":
        return _IndependentSampler(_list_grid(plan.parameters))
    draw = _draw_sobol if plan.algorithm == "sobol" else _draw_random
    return _IndependentSampler(draw(plan))


class _IndependentSampler:
    """Trials that do not depend on each other."""

    def __init__(self, trials: Iterator[Values]) -> None:
        self._trials = trials

    def ask(self, number: int) -> Values | None:
        del number
        return next(self._trials, None)

    def tell(self, number: int, value: float | None) -> None:
        """Learn nothing."""


def _draw_random(plan: SweepPlan) -> Iterator[Values]:
    source = random.Random(plan.seed)  # noqa: S311 - nothing secret
    while True:
        yield {parameter.name: parameter.at(source.random()) for parameter in plan.parameters}


def _list_grid(parameters: tuple[Parameter, ...]) -> Iterator[Values]:
    """Every combination; the last parameter changes fastest."""
    for values in itertools.product(*(parameter.values for parameter in parameters)):
        yield dict(zip((parameter.name for parameter in parameters), values, strict=True))


def _draw_sobol(plan: SweepPlan) -> Iterator[Values]:
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
    """Optuna's sampler, through its ask-and-tell interface."""

    def __init__(self, plan: SweepPlan) -> None:
        import optuna  # only for this kind of sampling

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        self._parameters = plan.parameters
        self._space = {parameter.name: _make_distribution(parameter, optuna) for parameter in plan.parameters}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this option is marked experimental
            # Running trials count as bad ones, so that concurrent trials explore other values.
            sampler = optuna.samplers.TPESampler(seed=plan.seed, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler, direction=plan.goal)
        self._asked: dict[int, Any] = {}

    def ask(self, number: int) -> Values | None:
        trial = self._study.ask(self._space)
        self._asked[number] = trial
        return {
            parameter.name: _convert_drawn(parameter, trial.params[parameter.name])
            for parameter in self._parameters
        }

    def tell(self, number: int, value: float | None) -> None:
        trial = self._asked.pop(number)
        if value is None or not math.isfinite(value):
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, value)


def _make_distribution(parameter: Parameter, optuna: Any) -> Any:
    """Choices by their index, because Optuna refuses equal ones; numbers before rounding."""
    if parameter.kind == "choice":
        return optuna.distributions.CategoricalDistribution(range(len(parameter.values)))
    return optuna.distributions.FloatDistribution(parameter.first, parameter.second)


def _convert_drawn(parameter: Parameter, drawn: Any) -> Value:
    return parameter.values[drawn] if parameter.kind == "choice" else parameter.finish(float(drawn))


def trial_name(step: str, number: int) -> str:
    """The name of a trial, counting from 0."""
    return f"{step}.trial-{number:03}"


def make_trial(step: Task, plan: SweepPlan, number: int, values: Values) -> Task:
    """The task of a trial of a sweep, counting from 0.

    A command names a parameter ``${{search_space.x}}`` in an inline trial and ``${{inputs.x}}`` where the
    trial is a component. Its processes also see ``AZUREML_SWEEP_<x>``, as in Azure ML.
    """
    fitting = {key: _fit_to_port(step.component, key, value) for key, value in values.items()}
    sweep_variables = {
        f"AZUREML_SWEEP_{key}": literals.render_literal(value) for key, value in fitting.items()
    }
    return replace(
        step,
        name=trial_name(step.name, number),
        kind="command",
        component=structs.replace(
            step.component,
            command=Field(fill_command(step.command, fitting)),
            is_deterministic=Field(False),  # its metric is not stored with its outputs, so it is not reused
        ),
        inputs={**step.inputs, **{key: Text(value, is_secret(key)) for key, value in fitting.items()}},
        environment_variables={**step.environment_variables, **sweep_variables},
        timeout=plan.trial_timeout,
    )


def fill_command(command: str, values: Values) -> str:
    """Replace each ``${{search_space.x}}`` of a command that names a parameter."""
    pieces: list[str] = []
    position = 0
    for expression in binding.find_expressions(command):
        if expression.scope == "search_space" and expression.port in values:
            pieces += [command[position : expression.start], literals.render_literal(values[expression.port])]
            position = expression.end
    return "".join([*pieces, command[position:]])


def _fit_to_port(component: Component, key: str, value: Value) -> Value:
    """Convert a whole number for an integer input: ``quniform`` over fractions gives 16.0."""
    port = component.inputs.get(key)
    if port is not None and port.type == "integer" and isinstance(value, float) and value == int(value):
        return int(value)
    return value
