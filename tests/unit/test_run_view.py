"""What a run shows: lines, the table, the summary."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from worldsize.base.wording import format_duration
from worldsize.running.model.results import Failure, Progress, Registration, RunResult, Status, StepResult
from worldsize.running.record.details import describe_early_end, list_warnings
from worldsize.running.show import live
from worldsize.running.show.views import PlainView, render_summary

HALF = Progress(step=50, total_steps=100, epoch=1.0, loss=0.123456, samples_per_second=1234.5)


def test_lines_without_a_terminal() -> None:
    lines: list[str] = []
    time = [0.0]
    view = PlainView(lines.append, lambda: time[0])
    train = Status("train", processes=2)
    view.changed(train)
    train.state, train.started = "running", 0.0
    view.changed(train)
    train.progress = HALF
    for time[0] in (1.0, 4.9, 5.1, 9.0):
        view.tick({"train": train})
    train.state, train.seconds = "succeeded", 9.5
    view.changed(train)
    view.changed(Status("later", state="stopped"))
    assert lines == [
        "train: running, 2 processes",
        "train: step 50/100, loss 0.1235, 1,234 samples/s",
        "train: succeeded after 9.5 s",
    ]


def test_a_step_without_progress_is_hinted_at_once() -> None:
    lines: list[str] = []
    time = [0.0]
    view = PlainView(lines.append, lambda: time[0], hint=lambda step: f"see {step}")
    train = Status("train", "running", 2, started=0.0)
    view.changed(train)
    for time[0] in (1.0, 5.1, 9.0, 30.0):
        view.tick({"train": train})
    assert lines == ["train: running, 2 processes", "train: see train"]


def test_the_last_progress_is_said_once() -> None:
    """What differs in nothing that is shown is the same line."""
    lines: list[str] = []
    time = [0.0]
    view = PlainView(lines.append, lambda: time[0])
    train = Status("train", "running", 2, started=0.0, progress=HALF)
    view.changed(train)
    time[0] = 6.0
    view.tick({"train": train})
    train.progress = replace(HALF, epoch=2.0)
    train.state = "succeeded"
    view.changed(train)
    assert [line for line in lines if "step" in line] == ["train: step 50/100, loss 0.1235, 1,234 samples/s"]


def drawn(statuses: list[Status], *, rows: int = 20, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    picture = live.draw_table({status.name: status for status in statuses}, now=12.5, rows=rows, width=width)
    with console.capture() as capture:
        console.print(picture)
    return capture.get()


def test_the_table_has_state_time_progress_loss_and_rate() -> None:
    text = drawn(
        [
            Status("shard", "succeeded", started=0.0, seconds=2.0),
            Status("train", "running", 2, started=2.5, progress=HALF),
            Status("evaluate"),
        ]
    )
    assert "✓  shard" in text
    train = next(line for line in text.splitlines() if "train" in line)
    assert train.split()[:6] == ["▶", "train", "×2", "running", "10.0", "s"]
    assert train.split()[-3:] == ["50/100", "0.1235", "1,234"]
    assert "waiting" in text


def test_a_thousand_steps_fit_on_a_screen() -> None:
    statuses = [Status(f"s{number}", "succeeded", started=1.0, seconds=1.0) for number in range(1000)]
    statuses[500].state = "running"
    text = drawn(statuses, rows=10)
    assert len(text.splitlines()) <= 11
    assert "s500" in text
    assert "999 of 1000 steps done" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.96, "1 min 00 s"), (125, "2 min 05 s"), (3720, "1 h 02 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def result(*steps: StepResult, **more: object) -> RunResult:
    state = "failed" if any(step.failure for step in steps) else "succeeded"
    return RunResult("20260102-1", Path("home/runs/20260102-1"), state, {s.name: s for s in steps}, **more)  # type: ignore[arg-type]


def test_the_summary_of_a_good_run() -> None:
    done = StepResult("train", "succeeded", 61.0, Path("home/runs/20260102-1/steps/train"), {})
    text = render_summary(
        result(
            done,
            seconds=70.0,
            metrics={"accuracy": 0.98765, "loss": 0.1},
            registrations=(Registration("digits", "3"), Registration("other", None, "accuracy is 0.5")),
            tracking_uri=f"sqlite:///{Path.cwd() / 'home' / 'mlflow.db'}",
        )
    )
    assert text.startswith("run 20260102-1 succeeded after 1 min 10 s\n  train  succeeded    1 min 01 s\n")
    assert "  metrics  accuracy 0.9877, loss 0.1\n" in text
    assert "  model    digits version 3\n  model    other was not registered: accuracy is 0.5\n" in text
    assert " ui --host 127.0.0.1 --backend-store-uri sqlite:///home/mlflow.db\n" in text


def test_the_summary_leads_with_what_a_constant_answer_does_not_get() -> None:
    done = StepResult("evaluate", "succeeded", 1.0, Path("x"), {})
    shares = {"accuracy": 0.94, "recall_no": 1.0, "recall_yes": 0.14, "constant_accuracy_no": 0.93}
    more = {"precision_no": 0.9, "precision_yes": 0.8, "f1": 0.6, "rows": 100.0, "average_precision": 0.4}
    text = render_summary(result(done, metrics=shares | more))
    guess = "average_precision 0.4 (a guess gets 0.07)"
    said = f"{guess}, accuracy 0.94 (the constant answer `no` gets 0.93) and 7 more"
    assert f"  metrics  {said}\n" in text


def test_a_training_that_ends_before_its_last_step_says_so(tmp_path: Path) -> None:
    done, early = Progress(step=140, total_steps=140), Progress(step=60, total_steps=140)
    assert [describe_early_end(each, tmp_path) for each in (None, Progress(step=3), done)] == [None] * 3
    assert describe_early_end(early, tmp_path) == "ended at step 60 of 140"
    (tmp_path / "rank-0.log").write_text(
        "step 60/140\nstopping early after step 60: 3 validations without improvement, best loss 0.3\nsaved\n"
    )
    reason = describe_early_end(early, tmp_path)
    assert reason == "ended at step 60 of 140: 3 validations without improvement, best loss 0.3"
    step = StepResult("train", "succeeded", 61.0, tmp_path, {}, summary=reason)
    assert f"\n    {reason}\n" in render_summary(result(step))


def test_the_summary_has_the_warnings_of_a_step(tmp_path: Path) -> None:
    lines = [
        "warning: old",
        "warning: a",
        "train: 9 rows",
        "warning: a",
        "warning: b",
        "warning: c",
        "a warning: d",
    ]
    (tmp_path / "rank-0.log").write_text("\n".join(lines))
    assert list_warnings(tmp_path) == ["warning: a", "warning: b", "warning: c"]
    step = StepResult("shard", "succeeded", 1.0, tmp_path, {}, warnings=("warning: a", "warning: b"))
    assert "\n    warning: a\n    warning: b\n" in render_summary(result(step))


def test_a_table_on_the_screen_is_not_said_again() -> None:
    done = StepResult("train", "succeeded", 61.0, Path("x"), {})
    text = render_summary(result(done, seconds=70.0), steps=False)
    assert text.startswith("run 20260102-1 succeeded after 1 min 10 s\n  folder ")
    assert "train" not in text


def test_a_version_of_an_untracked_run_is_not_claimed_for_the_registry() -> None:
    done = StepResult("register", "succeeded", 1.0, Path("x"), {})
    text = render_summary(result(done, registrations=(Registration("digits", "3"),)))
    assert "  model    digits version 3, in this run's folder only\n" in text


def test_what_is_missing_in_mlflow_is_said_and_no_success() -> None:
    done = StepResult("train", "succeeded", 1.0, Path("x"), {})
    never = result(done, untracked="mlflow is not installed (mlflow)")
    assert never.exit_code == 0  # there is no record that says otherwise
    assert "  mlflow   not tracked: mlflow is not installed (mlflow)\n" in render_summary(never)
    half = result(done, untracked="its database: database is locked", record_incomplete=True)
    assert half.exit_code == 1
    said = "error: the record of this run in MLflow is incomplete: its database: database is locked\n"
    assert render_summary(half).startswith(said)


def test_the_summary_of_a_failure_names_step_rank_status_log_and_last_lines() -> None:
    log = Path("home/runs/20260102-1/steps/train/logs/rank-1.log")
    failure = Failure("rank-1", 1, 3, log, ("be\tfore", "bad \x1b[2J end"), "rank 1 ended with exit status 3")
    failed = StepResult("train", "failed", 1.0, Path("x"), {}, failure)
    never = StepResult("evaluate", "waiting", 0.0, Path("x"), {})
    text = render_summary(result(failed, never))
    assert text.startswith(
        "error: step `train` failed: rank 1 ended with exit status 3\n"
        "  log: home/runs/20260102-1/steps/train/logs/rank-1.log, its last lines:\n"
        "  | be      fore\n"
    )
    assert "\x1b" not in text
    assert "  evaluate  not started\n" in text
    assert text.endswith("  resume   worldsize resume 20260102-1 --runs-dir home\n")
