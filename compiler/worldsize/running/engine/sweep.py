"""An active sweep: which trials come next, which are stopped early, and which was best.

Random draws and grids need the standard library only. Sobol points are SciPy's, Bayesian sampling is
Optuna's tree-structured Parzen estimator (Bergstra et al., 2011), which learns from the trials that have
ended. With the same seed, random, Sobol and grid sampling give the same trials each time. Bayesian sampling
does so only if one trial runs at a time, because otherwise it depends on which trial ends first.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import math
import random
import statistics
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import binding, literals
from worldsize.azureml.model import Component, Field
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import plural
from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.engine.failures import failure_signature
from worldsize.running.model.folder import RunFolder, make_link
from worldsize.running.model.results import DONE, Failure, StepResult, failure_of_step
from worldsize.running.model.task import EarlyTermination, Goal, Parameter, SweepPlan, Task, Text, Value
from worldsize.running.record.folder import EventLog
from worldsize.running.record.tracking import LoggedMetric, Tracking

ASK_SECONDS = 1.0  # between queries of what the running trials have logged
ALIKE_ENOUGH = 3  # trials that fail in the same way before no further one is started
MAX_NAMES = 6  # metrics listed if the requested one is missing


Values = dict[str, Value]


class Trial(Struct):
    """One trial and what is known of it."""

    name: str
    number: int
    values: Values
    history: tuple[float, ...] = ()  # of the primary metric
    state: str = "running"
    judged_interval: int = 0  # the interval at which the policy was last applied
    requested: bool = False
    failure: Failure | None = None


class Sweep(Struct):
    """The expansion of a step of kind ``sweep``.

    Trials that fail are counted and the sweep continues, unless the first three all fail in the same way. Of
    the trials that succeed, the one with the best value of the primary metric gives the step its outputs; of
    equal ones the first.
    """

    task: Task  # the step
    plan: SweepPlan  # what it tries
    run: RunFolder  # where the run keeps its steps
    tracking: Tracking  # where trials log their metric
    log: EventLog  # the event log
    trials: dict[str, Trial] = field(default_factory=dict)
    best: Trial | None = None
    _sampler: Sampler | None = None
    _began: float = 0.0
    _next_look: float = 0.0
    _over: bool = False  # no further trial is made
    _timed_out: bool = False
    _reason: str | None = None  # why it cannot be run at all
    _names: tuple[str, ...] = ()  # metrics that were logged instead

    def begin(self) -> Sequence[Task]:
        """The first trials; none if nothing is tracked."""
        self._began = time.monotonic()
        if self._is_untracked():
            return []
        self._sampler = make_sampler(self.plan)
        return self._add_trials()

    def ended(self, child: str, result: StepResult) -> Sequence[Task]:
        """Read what an ended trial has logged, learn from it, and return the trials that follow."""
        trial = self.trials[child]
        trial.state, trial.failure = result.state, result.failure
        logged = self.tracking.wait_for(child, self.plan.primary_metric)
        self._is_untracked()
        if logged is not None:
            self._store_history(trial, logged)
        score = self._find_score(trial)
        if self._sampler is not None:
            self._sampler.tell(trial.number, score)
        self.log.write(
            "trial_ended",
            step=child,
            state=trial.state,
            parameters=trial.values,
            value=_to_json_number(score),
        )
        return self._add_trials()

    def to_stop(self) -> Sequence[str]:
        """The running trials to stop now, by timeout or policy; called a few times a second."""
        running = [trial for trial in self.trials.values() if trial.state == "running"]
        now = time.monotonic()
        if self.plan.timeout is not None and now - self._began >= self.plan.timeout:
            self._timed_out = self._over = True
        if self._timed_out or self._is_untracked():
            return [trial.name for trial in running]
        if self.plan.policy is None:
            return []
        if now >= self._next_look:
            self._next_look = now + ASK_SECONDS
            for trial in running:
                if not trial.requested:
                    trial.requested = True
                    self.tracking.ask(trial.name, self.plan.primary_metric)
        for trial in running:
            logged = self.tracking.logged(trial.name, self.plan.primary_metric)
            if logged is not None:
                trial.requested = False
                self._store_history(trial, logged)
        return [trial.name for trial in running if self._is_judged_bad(trial)]

    @property
    def done(self) -> bool:
        """Whether no further trial is made; the step ends with the last one that runs."""
        return self._over or self._is_futile()

    def finish(self) -> Failure | None:
        """Link the best trial's outputs as the step's own, and record the trials; the failure, if any."""
        failure = self._explain_failure()
        if failure is None:
            self.best = self._find_best()
            assert self.best is not None
            try:
                self._link_outputs(self.best)
            except OSError as error:
                failure = failure_of_step(f"the best trial's outputs cannot be linked: {error.strerror}")
        self._write_record()
        if self.best is not None:
            run = self.tracking.run_of(self.best.name)
            if run is not None:  # the tags that Azure ML sets
                tags = {"best_child_run_id": run, "score": str(self._find_score(self.best))}
                self.tracking.tag(self.task.name, tags)
        return failure

    @property
    def summary(self) -> str | None:
        """The best trial in words, once there is one."""
        if self.best is None:
            return None
        shown = {
            name: HIDDEN if is_secret(name) else _format_value(value)
            for name, value in self.best.values.items()
        }
        values = ", ".join(f"{name} {value}" for name, value in shown.items())
        short = self.best.name.rpartition(".")[2]
        score = f"{self.plan.primary_metric} {_format_value(self._find_score(self.best))}"
        return f"the best of {self._describe_counts()} is {short}: {score} with {values}"

    @property
    def chosen(self) -> str | None:
        """The name of the best trial, once there is one."""
        return None if self.best is None else self.best.name

    @property
    def score(self) -> float | None:
        """The value of the primary metric in the best trial, once there is one."""
        return None if self.best is None else self._find_score(self.best)

    def _add_trials(self) -> list[Task]:
        tasks: list[Task] = []
        running = sum(trial.state == "running" for trial in self.trials.values())
        while not self.done and running < self.plan.max_concurrent_trials:
            number = len(self.trials)
            values = self._sampler.ask(number) if self._sampler is not None else None
            if values is not None:
                task = make_trial(self.task, self.plan, number, values)
                self.trials[task.name] = Trial(task.name, number, values)
                self.log.write("trial_made", step=task.name, parameters=values)
                tasks.append(task)
                running += 1
            self._over = values is None or len(self.trials) >= self.plan.max_total_trials
        return tasks

    def _is_futile(self) -> bool:
        """Whether all ended trials have failed to score in the same way, and there are enough of them."""
        ended = [trial for trial in self.trials.values() if trial.state != "running"]
        ways = {_describe_ending(trial) for trial in ended}
        return len(ended) >= ALIKE_ENOUGH and len(ways) == 1 and None not in ways

    def _store_history(self, trial: Trial, logged: LoggedMetric) -> None:
        trial.history = logged.values
        self._names = self._names or logged.names

    def _is_judged_bad(self, trial: Trial) -> bool:
        """Apply the policy once at each interval."""
        policy = self.plan.policy
        assert policy is not None
        due = policy.last_due(len(trial.history))
        if due <= trial.judged_interval:
            return False
        trial.judged_interval = due
        histories = {trial.name: trial.history for trial in self.trials.values() if trial.state != "failed"}
        running = frozenset(trial.name for trial in self.trials.values() if trial.state == "running")
        bad = should_stop(policy, self.plan.goal, trial.name, histories, running)
        if bad:
            self.log.write("trial_stopped_early", step=trial.name, policy=policy.kind, interval=due)
        return bad

    def _find_score(self, trial: Trial) -> float | None:
        return best_value(trial.history, self.plan.goal) if trial.history else None

    def _find_best(self) -> Trial | None:
        scores = {
            name: score
            for name, trial in self.trials.items()
            if trial.state in DONE
            and (score := self._find_score(trial)) is not None
            and not math.isnan(score)
        }
        best = min(scores, key=lambda name: rank_value(scores[name], self.plan.goal), default=None)
        return None if best is None else self.trials[best]

    def _explain_failure(self) -> Failure | None:
        """Why there is no best trial, and the failure of the first that failed; None if there is one."""
        if self._reason is not None:
            return failure_of_step(self._reason)
        failed = [trial for trial in self.trials.values() if trial.state == "failed"]
        if self._timed_out:
            message = (
                f"it was stopped at its timeout of {self.plan.timeout} s, after {self._describe_counts()}"
            )
        elif len(failed) == len(self.trials):
            message = f"all {len(failed)} trials failed" if len(failed) > 1 else "its only trial failed"
        elif self._find_best() is None:
            message = self._describe_unlogged()
        else:
            return None
        for trial in failed:
            if trial.failure is not None:
                said = f"{message}; in {trial.name.rpartition('.')[2]} {trial.failure.message}"
                return replace(trial.failure, message=said + self._describe_giving_up())
        return failure_of_step(message + self._describe_giving_up())

    def _describe_giving_up(self) -> str:
        """Why there are fewer trials than requested, if the first ones all failed in the same way."""
        if self._over or not self._is_futile():
            return ""
        return f"; after {len(self.trials)} that failed in the same way no further trial was started"

    def _describe_unlogged(self) -> str:
        metric = self.plan.primary_metric
        if any(trial.history for trial in self.trials.values()):
            return f"no trial that succeeded logged a number as `{metric}`"
        names = [f"`{name}`" for name in self._names[:MAX_NAMES]]
        logged = f"they logged {', '.join(names)}" if names else "they logged no metric"
        return f"no trial logged `{metric}` to MLflow; {logged}"

    def _describe_counts(self) -> str:
        states = [trial.state for trial in self.trials.values()]
        words = {"failed": "failed", "stopped": "stopped" if self._timed_out else "stopped early"}
        counts = ", ".join(
            f"{states.count(state)} {word}" for state, word in words.items() if state in states
        )
        return plural(len(states), "trial") + (f" ({counts})" if counts else "")

    def _link_outputs(self, best: Trial) -> None:
        mine, theirs = self.run.step(self.task.name), self.run.step(best.name)
        mine.outputs.mkdir(parents=True, exist_ok=True)
        for name in self.task.outputs:
            make_link(mine.outputs / name, theirs.outputs / name)
        make_link(mine.code, theirs.code)

    def _write_record(self) -> None:
        """Write `sweep.json` to the step's folder, to compare trials later."""
        tried = [
            {
                "name": trial.name,
                "state": trial.state,
                "parameters": trial.values,
                "value": _to_json_number(self._find_score(trial)),
            }
            for trial in self.trials.values()
        ]
        best = self.best
        self.log.write(
            "sweep_ended",
            step=self.task.name,
            best=self.chosen,
            parameters=best.values if best else None,
            value=_to_json_number(self.score),
            trials=len(tried),
        )
        metric, goal = self.plan.primary_metric, self.plan.goal
        document = {"metric": metric, "goal": goal, "best": self.chosen, "trials": tried}
        with contextlib.suppress(OSError):
            folder = self.run.step(self.task.name).root
            folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self.log.mask.data(document), indent=1) + "\n"
            write_whole(folder / "sweep.json", text.encode(), follow=False)

    def _is_untracked(self) -> bool:
        """Whether MLflow is unavailable, which may turn out late; then no further trial is made."""
        why = self.tracking.unavailable
        if why is not None:
            self._over = True
            self._reason = f"a sweep reads `{self.plan.primary_metric}` from MLflow, and nothing is tracked"
            self._reason += f": {why}" if why else "; leave out `--no-track`"
        return why is not None


def _describe_ending(trial: Trial) -> str | None:
    """A text that is equal for trials that fail in the same way; None if a trial scored or was stopped."""
    if trial.history or trial.state == "stopped":
        return None
    if trial.failure is None:
        return trial.state
    return failure_signature(trial.failure.message, trial.failure.last_lines)


def _to_json_number(value: float | None) -> float | None:
    """A finite number, which JSON can hold, or None."""
    return value if value is not None and math.isfinite(value) else None


def _format_value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


History = Sequence[float]  # one value an interval


def best_value(history: History, goal: Goal) -> float:
    """The best of at least one value; NaN is worse than any number."""
    return min(history, key=lambda value: rank_value(value, goal))


def rank_value(value: float, goal: Goal) -> tuple[bool, float]:
    """A sort key that puts the best first, and NaN last."""
    if math.isnan(value):
        return True, 0.0
    return False, value if goal == "minimize" else -value


def is_worse(value: float, than: float, goal: Goal) -> bool:
    """Whether a value is strictly worse than another."""
    return rank_value(value, goal) > rank_value(than, goal)


def should_stop(
    policy: EarlyTermination, goal: Goal, name: str, histories: Mapping[str, History], running: frozenset[str]
) -> bool:
    """Whether the policy ends one trial at the interval that it has reached.

    ``histories`` holds what every trial has logged, those that have ended too.
    """
    interval = policy.last_due(len(histories.get(name, ())))
    if interval == 0:
        return False
    # Only trials that have reached this interval can be compared at it.
    reached = {trial: history[:interval] for trial, history in histories.items() if len(history) >= interval}
    if policy.kind == "bandit":
        return _exceeds_slack(policy, goal, name, reached)
    if policy.kind == "median_stopping":
        return _is_below_median(goal, name, reached)
    if policy.exclude_finished_jobs:
        reached = {trial: history for trial, history in reached.items() if trial in running or trial == name}
    return _is_truncated(policy, goal, name, reached)


def _exceeds_slack(policy: EarlyTermination, goal: Goal, name: str, reached: Mapping[str, History]) -> bool:
    """Whether a trial is worse than the best one by more than the slack.

    With ``slack_factor`` f, 0.8 to be maximised allows 0.8 / (1 + f), and 0.8 to be minimised
    0.8 · (1 + f). Below zero the absolute value counts, so that the slack stays positive.
    """
    top = best_value([best_value(history, goal) for history in reached.values()], goal)
    if policy.slack_amount:
        slack = policy.slack_amount
    else:
        factor = policy.slack_factor or 0.0
        slack = abs(top) * (factor if goal == "minimize" else factor / (1 + factor))
    limit = top + slack if goal == "minimize" else top - slack
    return is_worse(best_value(reached[name], goal), limit, goal)


def _is_below_median(goal: Goal, name: str, reached: Mapping[str, History]) -> bool:
    """Whether its best value is worse than the median of the running averages of all trials."""
    averages = [statistics.fmean(history) for history in reached.values()]
    numbers = [average for average in averages if not math.isnan(average)]
    return bool(numbers) and is_worse(best_value(reached[name], goal), statistics.median(numbers), goal)


def _is_truncated(policy: EarlyTermination, goal: Goal, name: str, reached: Mapping[str, History]) -> bool:
    """Whether it is among the percentage of worst trials, rounded down; of equal ones the later are."""
    doomed = len(reached) * policy.truncation_percentage // 100
    scores = {trial: best_value(history, goal) for trial, history in reached.items()}
    order = sorted(scores, key=lambda trial: (rank_value(scores[trial], goal), trial))
    return name in order[len(order) - doomed :]


class Sampler:
    """Gives the values of each trial in turn; these do not depend on each other."""

    def __init__(self, trials: Iterator[Values]) -> None:
        self._trials = trials

    def ask(self, number: int) -> Values | None:  # noqa: ARG002 - for samplers that learn
        """The values of a trial, counting from 0; None if no values are left."""
        return next(self._trials, None)

    def tell(self, number: int, value: float | None) -> None:
        """Take the best metric of an ended trial; None if it failed or logged none."""


def make_sampler(plan: SweepPlan) -> Sampler:
    """Make the sampler of a plan; reading the plan has checked that its library is installed."""
    if plan.algorithm == "bayesian":
        return _BayesianSampler(plan)
    if plan.algorithm == "grid":
        return Sampler(_list_grid(plan.parameters))
    return Sampler(_draw_sobol(plan) if plan.algorithm == "sobol" else _draw_random(plan))


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
    for point in engine.random_base2(math.ceil(math.log2(max(2, plan.max_total_trials)))):
        pairs = zip(plan.parameters, map(float, point), strict=True)
        yield {parameter.name: parameter.at(position) for parameter, position in pairs}


class _BayesianSampler(Sampler):
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
        trial = self._asked[number] = self._study.ask(self._space)
        names = {parameter.name: parameter for parameter in self._parameters}
        return {name: _convert_drawn(parameter, trial.params[name]) for name, parameter in names.items()}

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
        name=f"{step.name}.trial-{number:03}",
        kind="command",
        component=replace(
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
    texts = {f"search_space.{name}": literals.render_literal(value) for name, value in values.items()}
    return binding.fill_expressions(command, lambda expression: texts.get(expression.name))


def _fit_to_port(component: Component, key: str, value: Value) -> Value:
    """Convert a whole number for an integer input: ``quniform`` over fractions gives 16.0."""
    port = component.inputs.get(key)
    if port is not None and port.type == "integer" and isinstance(value, float) and value == int(value):
        return int(value)
    return value
