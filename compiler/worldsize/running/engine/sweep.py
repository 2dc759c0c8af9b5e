"""An active sweep: which trials come next, which are stopped early, and which was best."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.base.whole_file import write_whole
from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.engine.failures import failure_signature
from worldsize.running.engine.trials import Sampler, Values, make_sampler, make_trial
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.results import DONE, Failure, StepResult, failure_of_step
from worldsize.running.model.task import EarlyTermination, Goal, SweepPlan, Task
from worldsize.running.record.events import EventLog
from worldsize.running.record.tracking import LoggedMetric, Tracking

ASK_SECONDS = 1.0  # between queries of what the running trials have logged
ALIKE_ENOUGH = 3  # trials that fail in the same way before no further one is started
MAX_NAMES = 6  # metrics listed if the requested one is missing


def make_sweeps(
    plans: Mapping[str, SweepPlan],
    tasks: Mapping[str, Task],
    run: RunFolder,
    tracking: Tracking,
    *,
    log: EventLog,
) -> dict[str, Sweep]:
    """The expansion of every sweep of a graph, by the name of its step."""
    return {name: Sweep(tasks[name], plan, run, tracking, log) for name, plan in plans.items()}


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
        """Make as many new trials as may run at the same time."""
        tasks: list[Task] = []
        running = sum(trial.state == "running" for trial in self.trials.values())
        while not self.done and running < self.plan.max_concurrent_trials:
            number = len(self.trials)
            values = self._sampler.ask(number) if self._sampler is not None else None
            if values is not None:
                tasks.append(self._make_trial(number, values))
                running += 1
            self._over = values is None or len(self.trials) >= self.plan.max_total_trials
        return tasks

    def _make_trial(self, number: int, values: Values) -> Task:
        task = make_trial(self.task, self.plan, number, values)
        self.trials[task.name] = Trial(task.name, number, values)
        self.log.write("trial_made", step=task.name, parameters=values)
        return task

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
        best: Trial | None = None
        for trial in self.trials.values():
            score = self._find_score(trial)
            if trial.state not in DONE or score is None or math.isnan(score):
                continue
            top = self._find_score(best) if best is not None else None
            if top is None or is_worse(top, score, self.plan.goal):
                best = trial
        return best

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
        parts = [f"{len(states)} trial{'s' if len(states) != 1 else ''}"]
        for state, word in (
            ("failed", "failed"),
            ("stopped", "stopped" if self._timed_out else "stopped early"),
        ):
            if state in states:
                parts.append(f"{states.count(state)} {word}")
        return parts[0] + (f" ({', '.join(parts[1:])})" if parts[1:] else "")

    def _link_outputs(self, best: Trial) -> None:
        mine, theirs = self.run.step(self.task.name), self.run.step(best.name)
        mine.outputs.mkdir(parents=True, exist_ok=True)
        for name in self.task.outputs:
            _symlink(theirs.outputs / name, mine.outputs / name)
        _symlink(theirs.code, mine.code)

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
        document = {
            "metric": self.plan.primary_metric,
            "goal": self.plan.goal,
            "best": self.best.name if self.best else None,
            "trials": tried,
        }
        best = self.best
        self.log.write(
            "sweep_ended",
            step=self.task.name,
            best=best.name if best else None,
            parameters=best.values if best else None,
            value=_to_json_number(self._find_score(best)) if best else None,
            trials=len(tried),
        )
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


def _symlink(target: os.PathLike[str], link: os.PathLike[str]) -> None:
    """Make a relative link, so that the run's folder can be moved; replace that of an earlier attempt."""
    if os.path.islink(link):  # noqa: PTH114
        os.unlink(link)  # noqa: PTH108
    os.symlink(os.path.relpath(target, os.path.dirname(link)), link)  # noqa: PTH120, PTH211


def _to_json_number(value: float | None) -> float | None:
    """A finite number, which JSON can hold, or None."""
    return value if value is not None and math.isfinite(value) else None


def _format_value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


History = Sequence[float]  # one value an interval


def best_value(history: History, goal: Goal) -> float:
    """The best value of a trial. NaN is worse than any number; an empty history has none.

    Raises:
        ValueError: The history is empty.
    """
    numbers = [value for value in history if not math.isnan(value)]
    if not numbers and history:
        return math.nan
    return min(numbers) if goal == "minimize" else max(numbers)


def is_worse(value: float, than: float, goal: Goal) -> bool:
    """Whether a value is strictly worse than another; NaN is worse than any number."""
    if math.isnan(value) or math.isnan(than):
        return math.isnan(value) and not math.isnan(than)
    return value > than if goal == "minimize" else value < than


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
    top = _find_top([best_value(history, goal) for history in reached.values()], goal)
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
    order = sorted(scores, key=lambda trial: (_rank_value(scores[trial], goal), trial))
    return name in order[len(order) - doomed :]


def _find_top(values: Sequence[float], goal: Goal) -> float:
    return min(values, key=lambda value: _rank_value(value, goal))


def _rank_value(value: float, goal: Goal) -> float:
    """A sort key that puts the best first."""
    if math.isnan(value):
        return math.inf
    return value if goal == "minimize" else -value
