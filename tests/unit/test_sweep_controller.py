"""What a sweep does as its trials end: which follow, which are stopped, which was best, and why it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from worldsize.azureml.model import Component, Field
from worldsize.running.engine import sweep
from worldsize.running.engine.sweep import Sweep
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.results import Failure, StepResult, StepState
from worldsize.running.model.task import EarlyTermination, Parameter, SweepPlan, Task
from worldsize.running.record.folder import EventLog, scan_events
from worldsize.running.record.tracking import LoggedMetric, Tracking

PLAN = SweepPlan(
    parameters=(Parameter("x", "choice", values=(1, 2, 3, 4)),),
    algorithm="grid",
    goal="minimize",
    primary_metric="loss",
    max_total_trials=3,
    max_concurrent_trials=2,
)


LONG = replace(PLAN, parameters=(Parameter("x", "choice", values=tuple(range(20))),), max_total_trials=20)


class Journal(Tracking):
    """Answers from what a test says was logged; no process behind it."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.written: dict[str, LoggedMetric] = {}
        self.tags: dict[str, dict[str, str]] = {}

    def log(self, step: str, *values: float, names: tuple[str, ...] = ()) -> None:
        self.written[step] = LoggedMetric(values, names)

    def wait_for(self, step: str, metric: str, seconds: float = 0) -> LoggedMetric | None:
        return self.written.get(step)

    def logged(self, step: str, metric: str) -> LoggedMetric | None:
        return self.written.get(step)


class Driver:
    """A sweep, and the trials of it that a test ends."""

    def __init__(self, folder: Path, plan: SweepPlan, log: EventLog) -> None:
        self.run = RunFolder(folder)
        command: Field[Any] = Field("train ${{search_space.x}}")
        component = Component(None, "command", None, None, {}, {}, command=command)
        task = Task("s", component, folder, outputs={"model": "uri_folder"}, kind="sweep")
        self.journal = Journal(folder)
        self.sweep = Sweep(task, plan, self.run, self.journal, log)
        self.running: list[str] = []

    def begin(self) -> None:
        self.running += [task.name for task in self.sweep.begin()]

    def end(self, name: str, *values: float, state: StepState = "succeeded") -> None:
        if values:
            self.journal.log(name, *values)
        folder = self.run.step(name)
        for place in (folder.outputs / "model", folder.code):
            place.mkdir(parents=True)
        message = "rank 0 ended with exit status 3"
        failure = Failure("rank-0", 0, 3, None, ("why",), message, ("its environment pins `x<1`",))
        result = StepResult(name, state, 1.0, folder.root, {}, failure if state == "failed" else None)
        self.running.remove(name)
        self.running += [task.name for task in self.sweep.ended(name, result)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tmp_path / "events.jsonl") as opened:
        yield opened


@pytest.fixture
def driver(tmp_path: Path, log: EventLog) -> Driver:
    return Driver(tmp_path, PLAN, log)


def test_trials_follow_each_other_up_to_the_limits_and_the_best_is_linked(
    driver: Driver, tmp_path: Path
) -> None:
    driver.begin()
    assert driver.running == ["s.trial-000", "s.trial-001"]
    assert not driver.sweep.done
    driver.end("s.trial-001", 5.0, 2.0, 4.0)
    assert driver.running == ["s.trial-000", "s.trial-002"]
    assert driver.sweep.done
    driver.end("s.trial-000", 3.0)
    driver.end("s.trial-002", 2.0)  # as good, but later
    assert driver.sweep.finish() is None
    step = tmp_path / "steps" / "s"
    assert (step / "outputs" / "model").resolve() == tmp_path / "steps" / "s.trial-001" / "outputs" / "model"
    assert not (step / "outputs" / "model").readlink().is_absolute()
    assert driver.sweep.summary == "the best of 3 trials is trial-001: loss 2 with x 2"
    ended = [each for each in scan_events(tmp_path / "events.jsonl")[0] if each["event"] == "sweep_ended"]
    assert [(each["best"], each["parameters"], each["value"]) for each in ended] == [
        ("s.trial-001", {"x": 2}, 2.0)
    ]
    written = json.loads((step / "sweep.json").read_text())
    assert [trial["value"] for trial in written["trials"]] == [3.0, 2.0, 2.0]


def test_failed_and_stopped_trials_and_nan_are_never_the_best(driver: Driver) -> None:
    driver.begin()
    driver.end("s.trial-000", 0.0, state="failed")
    driver.end("s.trial-001", float("nan"))
    driver.end("s.trial-002", -5.0, state="stopped")
    failure = driver.sweep.finish()
    assert failure is not None
    assert failure.message == (
        "no trial that succeeded logged a number as `loss`; in trial-000 rank 0 ended with exit status 3"
    )
    assert failure.last_lines == ("why",)


def test_where_all_trials_fail_the_first_reason_is_given(driver: Driver) -> None:
    driver.begin()
    for name in ("s.trial-000", "s.trial-001", "s.trial-002"):
        driver.end(name, state="failed")
    failure = driver.sweep.finish()
    assert failure is not None
    assert failure.message == "all 3 trials failed; in trial-000 rank 0 ended with exit status 3"
    assert failure.last_lines == ("why",)
    assert failure.notes == ("its environment pins `x<1`",)


def test_where_the_only_trial_fails_it_is_not_counted(tmp_path: Path, log: EventLog) -> None:
    driver = Driver(tmp_path, replace(PLAN, max_total_trials=1), log)
    driver.begin()
    driver.end("s.trial-000", state="failed")
    failure = driver.sweep.finish()
    assert failure is not None
    assert failure.message == "its only trial failed; in trial-000 rank 0 ended with exit status 3"


@pytest.mark.parametrize("state", ["failed", "succeeded"])
def test_trials_that_all_end_badly_alike_are_not_gone_on_with(
    state: StepState, tmp_path: Path, log: EventLog
) -> None:
    driver = Driver(tmp_path, LONG, log)
    driver.begin()
    for name in ("s.trial-000", "s.trial-001", "s.trial-002"):
        driver.end(name, state=state)
    assert driver.sweep.done
    driver.end("s.trial-003", state=state)  # it was running when the third ended
    assert not driver.running
    failure = driver.sweep.finish()
    assert failure is not None
    assert failure.message.endswith("; after 4 that failed in the same way no further trial was started")


def test_a_sweep_goes_on_where_one_trial_ends_otherwise(tmp_path: Path, log: EventLog) -> None:
    driver = Driver(tmp_path, LONG, log)
    driver.begin()
    for name in ("s.trial-000", "s.trial-001"):
        driver.end(name, state="failed")
    driver.end("s.trial-002", 1.0)
    for number in range(3, 20):
        driver.end(f"s.trial-{number:03}", state="failed")
    assert driver.sweep.finish() is None
    assert driver.sweep.summary == "the best of 20 trials (19 failed) is trial-002: loss 1 with x 2"


def test_a_metric_that_nobody_logs_is_named_beside_those_logged(driver: Driver) -> None:
    driver.begin()
    for name in ("s.trial-000", "s.trial-001", "s.trial-002"):
        driver.journal.log(name, names=("accuracy", "val_loss"))
        driver.end(name)
    failure = driver.sweep.finish()
    assert failure is not None
    assert failure.message == "no trial logged `loss` to MLflow; they logged `accuracy`, `val_loss`"


def test_a_sweep_that_is_not_tracked_makes_no_trial_or_no_more(driver: Driver) -> None:
    driver.begin()
    driver.journal.unavailable = "mlflow is not installed (mlflow)"
    assert set(driver.sweep.to_stop()) == {"s.trial-000", "s.trial-001"}
    for name in ("s.trial-000", "s.trial-001"):
        driver.end(name, state="stopped")
    assert driver.sweep.done
    failure = driver.sweep.finish()
    assert failure is not None
    assert failure.message == (
        "a sweep reads `loss` from MLflow, and nothing is tracked: mlflow is not installed (mlflow)"
    )


def test_a_sweep_that_nobody_wanted_to_track_says_what_to_leave_out(driver: Driver) -> None:
    driver.journal.unavailable = ""
    driver.begin()
    failure = driver.sweep.finish()
    assert failure is not None
    said = "a sweep reads `loss` from MLflow, and nothing is tracked; leave out `--no-track`"
    assert failure.message == said


def test_the_time_of_a_sweep_ends_it_with_all_its_trials(
    tmp_path: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: clock[0])
    driver = Driver(tmp_path, replace(PLAN, timeout=60), log)
    driver.begin()
    driver.end("s.trial-000", 1.0)
    clock[0] = 159.0
    assert not driver.sweep.to_stop()
    clock[0] = 160.0
    assert set(driver.sweep.to_stop()) == {"s.trial-001", "s.trial-002"}
    for name in ("s.trial-001", "s.trial-002"):
        driver.end(name, state="stopped")
    failure = driver.sweep.finish()
    assert failure is not None
    assert failure.message == "it was stopped at its timeout of 60 s, after 3 trials (2 stopped)"


def test_a_policy_is_applied_once_at_each_interval(tmp_path: Path, log: EventLog) -> None:
    policy = EarlyTermination("bandit", slack_amount=1.0, delay_evaluation=2)
    driver = Driver(tmp_path, replace(PLAN, policy=policy), log)
    driver.begin()
    driver.journal.log("s.trial-000", 1.0, 1.0)
    driver.journal.log("s.trial-001", 9.0)
    assert not driver.sweep.to_stop()  # one interval only
    driver.journal.log("s.trial-001", 9.0, 8.0)
    assert driver.sweep.to_stop() == ["s.trial-001"]
    assert not driver.sweep.to_stop()
    driver.end("s.trial-001", 9.0, 8.0, state="stopped")
    driver.end("s.trial-000", 1.0, 1.0)
    driver.end("s.trial-002", 3.0)
    assert driver.sweep.finish() is None
    assert driver.sweep.best is not None
    assert driver.sweep.best.name == "s.trial-000"
    stopped = [
        each for each in scan_events(tmp_path / "events.jsonl")[0] if each["event"] == "trial_stopped_early"
    ]
    assert [(each["step"], each["policy"], each["interval"]) for each in stopped] == [
        ("s.trial-001", "bandit", 2)
    ]


def test_a_grid_that_is_done_before_its_limit_ends_the_sweep(tmp_path: Path, log: EventLog) -> None:
    driver = Driver(tmp_path, replace(PLAN, max_total_trials=50, max_concurrent_trials=50), log)
    driver.begin()
    assert len(driver.running) == 4
    assert driver.sweep.done
