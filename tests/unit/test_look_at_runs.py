"""`worldsize runs`, `show`, `logs` and `cache`, on folders that are whole, damaged, or nobody's."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import sqlite3
import time
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from worldsize.base.wording import format_age, format_size
from worldsize.cli.main import main
from worldsize.cli.run import exit_with_result
from worldsize.reporting.read_run import read_attempts, read_pauses
from worldsize.running.model.folder import StepFolder
from worldsize.running.model.results import RunResult, StepResult
from worldsize.running.record import folder
from worldsize.running.record.details import name_values
from worldsize.running.record.folder import EventLog, find_runner, hold_lock, scan_events
from worldsize.running.record.history import load_run
from worldsize.running.reuse.store import Original, Store, StoreEntry, link_step

FIRST, SECOND = "20260102-030405-000", "20260102-040000-000"


def events(*documents: dict[str, object]) -> str:
    return "".join(
        json.dumps({"time": f"2026-01-02T03:04:{second:02}.000+00:00", **document}) + "\n"
        for second, document in enumerate(documents, 5)
    )


WHOLE = events(
    {"event": "run_started", "run": FIRST, "pipeline": "p.yml", "steps": ["shard", "train", "report"]},
    {"event": "step_started", "step": "shard", "attempt": 1, "processes": [{"name": "rank-0"}]},
    {"event": "step_ended", "step": "shard", "state": "succeeded", "seconds": 1.5, "reason": None},
    {"event": "step_started", "step": "train", "processes": [{"name": "rank-0"}, {"name": "rank-1"}]},
    {"event": "process_ended", "step": "train", "process": "rank-1", "status": 3},
    {"event": "process_ended", "step": "train", "process": "rank-0", "status": -15},
    {"event": "step_ended", "step": "train", "state": "failed", "seconds": 2.0, "reason": "rank 1 ended"},
    {"event": "step_ended", "step": "report", "state": "waiting", "seconds": 0.0, "reason": None},
    {"event": "run_ended", "state": "failed", "seconds": 4.25},
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one run that failed and one whose runner died in its first step."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".worldsize" / "runs"
    step = runs / FIRST / "steps" / "train"
    (step / "logs").mkdir(parents=True)
    (step / "logs" / "rank-0.log").write_text("zero\n")
    (step / "logs" / "rank-1.log").write_text("one\ntwo\nthree\n")
    (step / "outputs" / "model").mkdir(parents=True)
    (step / "outputs" / "model" / "metrics.json").write_text('{"accuracy": 0.75}')
    (runs / FIRST / "events.jsonl").write_text(WHOLE)
    needs = {"shard": [], "train": ["shard"], "report": ["train"]}
    parameters = {"parameters": {"epochs": "3", "seed": "1", "beta": "0.9"}, "defaults": ["beta", "seed"]}
    steps = {name: {"needs": each, **parameters} for name, each in needs.items()}
    (runs / FIRST / "run.json").write_text(json.dumps({"version": 1, "target": "p.yml", "steps": steps}))
    (runs / SECOND).mkdir()
    (runs / SECOND / "events.jsonl").write_text(
        "".join(WHOLE.splitlines(keepends=True)[:2]) + '{"event": "st'
    )
    (runs / "not-a-run.txt").touch()
    return tmp_path / ".worldsize"


def call(*words: str, status: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(words), input=stdin)
    assert result.exit_code == status, (result.output, result.exception)
    return result


def test_runs_are_listed_with_how_they_ended(home: Path) -> None:
    lines = call("runs").output.splitlines()
    assert lines[0].split() == ["run", "state", "steps", "started", "took", "pipeline"]
    assert lines[1].split()[:3] == [FIRST, "failed", "1/3"]
    assert lines[1].endswith("4.2 s  p.yml")
    assert lines[2].split()[:3] == [SECOND, "died", "0/3"]
    assert lines[2].endswith("1.0 s  p.yml")
    assert call("runs", "--last", "1").output.startswith("the last 1 of 2 runs\n")


def test_runs_as_json(home: Path) -> None:
    found = json.loads(call("runs", "--json").output)
    assert [(each["state"], each["steps_done"], each["seconds"]) for each in found] == [
        ("failed", 1, 4.25),
        ("died", 0, 1.0),
    ]


def test_a_run_goes_on_for_as_long_as_its_lock_is_held(home: Path) -> None:
    with hold_lock(home / "runs" / SECOND):
        assert load_run(home / "runs" / SECOND).state == "running"
        assert load_run(home / "runs" / SECOND).steps["shard"].state == "running"
        with pytest.raises(folder.AliveError), hold_lock(home / "runs" / SECOND):
            pass
    assert load_run(home / "runs" / SECOND).steps["shard"].state == "died"


def test_a_lock_whose_runner_died_is_waited_for(home: Path) -> None:
    path = home / "runs" / SECOND / folder.LOCK
    with path.open("w") as file:
        file.write(f"999999999 {os.uname().nodename}\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        begun = time.monotonic()
        with pytest.raises(folder.AliveError), hold_lock(path.parent, patience=0.3):
            pass
        assert time.monotonic() - begun >= 0.3
        assert load_run(path.parent).state == "died"  # though its processes are still being stopped
        path.write_text("999999999 another-machine\n")
        assert load_run(path.parent).state == "running"
    with hold_lock(path.parent):
        assert find_runner(path.parent) == os.getpid()


def test_a_run_that_died_lasted_until_its_processes_wrote_last(home: Path) -> None:
    root = home / "runs" / SECOND
    log = root / "steps" / "shard" / "logs" / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("working\n")
    written = (root / "events.jsonl").stat().st_mtime + 20
    os.utime(log, (written, written))
    run = load_run(root)
    assert (run.state, run.seconds, run.steps["shard"].seconds) == ("died", 21.0, 20.0)


def test_a_resumed_run_took_what_its_attempts_took(home: Path) -> None:
    """Not the time between them."""
    path = home / "runs" / FIRST / "events.jsonl"
    again = [
        {"event": "run_resumed", "run": FIRST},
        {"event": "step_started", "step": "train", "processes": []},
        {"event": "step_ended", "step": "train", "state": "succeeded", "seconds": 6.0},
        {"event": "run_ended", "state": "succeeded", "seconds": 6.5},
    ]
    path.write_text(WHOLE + events(*again).replace("T03:", "T09:"))
    assert load_run(path.parent).seconds == 8.0 + 6.5
    path.write_text(WHOLE + events(*again[:2]).replace("T03:", "T09:"))
    assert load_run(path.parent).seconds == 8.0 + 1.0


def test_an_attempt_that_was_killed_counts_to_its_last_sign_after_any_number_of_resumptions(
    home: Path,
) -> None:
    path = home / "runs" / SECOND / "events.jsonl"
    with EventLog(path) as log:
        log.write("run_died", datetime.fromisoformat("2026-01-02T03:04:26+00:00"))
    killed = path.read_text()
    resumed = events({"event": "run_resumed"}, {"event": "step_started", "step": "shard"})
    path.write_text(killed + resumed.replace("T03:", "T09:"))
    assert load_run(path.parent).seconds == 21.0 + 1.0
    path.write_text(killed + resumed.replace("T03:", "T09:") + resumed.replace("T03:", "T10:"))
    assert load_run(path.parent).seconds == 21.0 + 1.0 + 1.0
    logged, _ = scan_events(path)
    periods = [each.period for each in read_attempts(logged, now=None)["shard"]]
    assert [each.end - each.start for each in periods] == [20.0, 0.0, 0.0]
    assert read_pauses(logged)[0].end - read_pauses(logged)[0].start == 6 * 3600 - 21


def test_a_pipeline_in_python_has_the_name_of_its_function(home: Path) -> None:
    request = home / "runs" / FIRST / "run.json"
    document = json.loads(request.read_text())
    target = ".worldsize/pipelines/pipe-planned/pipeline.yml"
    request.write_text(json.dumps({**document, "target": target, "reference": "pipe.py:planned"}))
    assert "pipe.py:planned" in call("runs").stdout
    assert "pipeline  pipe.py:planned" in call("show", FIRST).stdout
    assert target not in call("runs").stdout + call("show", FIRST).stdout
    assert FIRST in call("runs", "--pipeline", "pipe.py:planned").stdout


def test_show_draws_the_graph(home: Path) -> None:
    text = call("show", "20260102-03").output
    assert re.search(r"^run 20260102-030405-000 failed after 4\.2 s$", text, re.MULTILINE)
    assert re.search(r"^shard +succeeded +1\.5 s$", text, re.MULTILINE)
    assert re.search(r"^  train +failed +2\.0 s  2 processes, <- shard$", text, re.MULTILINE)
    assert re.search(r"^    report +not started +<- train$", text, re.MULTILINE)
    assert (
        "      accuracy: 0.75\n      epochs = 3\n      2 parameters with the default of the component" in text
    )
    assert " default of the component: see `--json`\n      -> model  " in text
    assert "      ! rank 1 ended\n      | one\n      | two\n      | three\n" in text


def test_show_quotes_no_control_characters(home: Path) -> None:
    (home / "runs" / FIRST / "steps" / "train" / "logs" / "rank-1.log").write_text("a\tb\x07\n")
    assert "      | a       b\ufffd\n" in call("show", FIRST).output


def test_show_as_json(home: Path) -> None:
    found = json.loads(call("show", FIRST, "--json").output)
    train = found["steps"]["train"]
    assert train["metrics"] == {"accuracy": 0.75}
    assert train["needs"] == ["shard"]
    assert train["parameters"] == {"epochs": "3", "seed": "1", "beta": "0.9"}
    assert train["failure"] == "rank 1 ended"
    assert train["processes"] == ["rank-0", "rank-1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "2027"], "error: there is no run `2027`"),
        (["show", "20260102"], "error: `20260102` begins the ids of 2 runs, such as "),
        (["show", f"{FIRST}x"], f"did you mean `{FIRST}`?"),
        (["logs", FIRST, "trian"], "did you mean `train`?"),
        (
            ["logs", FIRST, "train", "--rank", "7"],
            "error: there is no log of rank 7\n  = help: there are `rank-0`",
        ),
        (
            ["logs", FIRST, "shard"],
            "there is no log of this step\n  = help: none of its processes has started",
        ),
        (["resume", SECOND], "has no record of what it ran"),
    ],
)
def test_what_is_not_there_is_said(words: list[str], said: str, home: Path) -> None:
    assert said in call(*words, status=1).output


def test_a_home_without_runs_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("runs").output == "no run in `.worldsize` yet\n"
    assert call("cache").output == "nothing to reuse in `.worldsize` yet\n"
    assert "there is no run in `.worldsize`" in call("show", "last", status=1).output
    assert list(tmp_path.iterdir()) == []


def test_logs_of_earlier_attempts_are_kept_and_printed(home: Path) -> None:
    logs = home / "runs" / FIRST / "steps" / "train" / "logs"
    for number in range(1, 11):
        (logs / f"attempt-{number}").mkdir()
        (logs / f"attempt-{number}" / "rank-0.log").write_text(f"attempt {number}\n")
    newest = call("logs", FIRST, "train", "--rank", "0")
    assert (newest.stdout, newest.stderr) == (
        "[rank 0] zero\n", "note: this is attempt 11; `--attempt` prints 1 to 10\n"
    )  # fmt: skip
    assert call("logs", FIRST, "train", "--attempt", "10").output == "attempt 10\n"
    assert call("logs", FIRST, "train", "--attempt", "2", "--follow").output == "attempt 2\n"
    assert call("logs", FIRST, "train", "--attempt", "11", "--rank", "0").output == "[rank 0] zero\n"
    refused = call("logs", FIRST, "train", "--attempt", "12", status=1)
    assert refused.stderr == "error: step `train` has no attempt 12\n  = help: its newest is 11\n"
    call("logs", FIRST, "train", "--attempt", "1", "--azure", status=2)


def test_the_logs_of_a_sweep_are_those_of_its_trials(home: Path) -> None:
    for trial in ("trial-000", "trial-001"):
        logs = home / "runs" / FIRST / "steps" / f"shard.{trial}" / "logs"
        logs.mkdir(parents=True)
        (logs / "rank-0.log").write_text(f"{trial}\n")
    printed = call("logs", FIRST, "shard").output
    assert printed == "[trial 000 rank 0] trial-000\n[trial 001 rank 0] trial-001\n"
    assert call("logs", FIRST, "shard", "--rank", "0").output == printed


def test_what_a_script_logs_to_mlflow_is_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(sqlite3.connect(home / "mlflow.db")) as connection, connection:
        connection.executescript(
            "CREATE TABLE runs (run_uuid, start_time); CREATE TABLE params (key, value, run_uuid);"
            "CREATE TABLE tags (key, value, run_uuid);"
            "CREATE TABLE metrics (key, value, timestamp, step, is_nan, run_uuid);"
            "CREATE TABLE latest_metrics AS SELECT * FROM metrics;"
        )
        for step, metric, value in (("shard", "auc", 0.9375), ("train", "f1", 0.5)):
            connection.execute("INSERT INTO runs VALUES (?, 1)", (step,))
            tags = [("worldsize.run", FIRST, step), ("worldsize.step", step, step)]
            connection.executemany("INSERT INTO tags VALUES (?, ?, ?)", tags)
            connection.execute("INSERT INTO latest_metrics VALUES (?, ?, 0, 0, 0, ?)", (metric, value, step))
    shown = json.loads(call("show", FIRST, "--json").output)["steps"]
    assert [shown[step]["metrics"] for step in ("shard", "train")] == [{"auc": 0.9375}, {"accuracy": 0.75}]
    assert "    auc: 0.9375\n" in call("show", FIRST).output
    page = home / "page.html"
    call("report", FIRST, "-o", str(page))
    assert ("Metrics of shard" in page.read_text(), ">f1<" in page.read_text()) == (True, False)
    ended = RunResult(
        FIRST,
        home / "runs" / FIRST,
        "succeeded",
        {"shard": StepResult("shard", "succeeded", 1.5, home, {})},
        4.0,
    )
    with pytest.raises(SystemExit):
        exit_with_result(ended, quiet=True, report=False)
    assert "  metrics  auc 0.9375, f1 0.5\n" in capsys.readouterr().out


def test_logs_say_whose_each_line_is(home: Path) -> None:
    assert (
        call("logs", FIRST, "train").output == "[rank 0] zero\n[rank 1] one\n[rank 1] two\n[rank 1] three\n"
    )
    assert (
        call("logs", FIRST, "train", "--rank", "1", "--lines", "2").output == "[rank 1] two\n[rank 1] three\n"
    )
    assert call("logs", FIRST, "train", "--process", "rank-0").output == "[rank 0] zero\n"
    assert call("logs", FIRST, "train", "--lines", "0").output == ""
    assert call("logs", FIRST, "train", "--follow", "--rank", "0").output == "[rank 0] zero\n"


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "\0\0\0\n\n[]\n3\n" + WHOLE,
        WHOLE.replace('"step": "train"', '"step": 7'),
        WHOLE.replace('"seconds": 2.0', '"seconds": "long"'),
        WHOLE.replace('"time": "2026', '"time": "soon'),
        WHOLE.replace('"steps": [', '"steps": ["x", null, '),
        WHOLE.replace('"event": "step_ended"', '"event": "step_exploded"'),
        '{"event": "run_ended"}\n' * 3,
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize("record", ["", "[]", '{"steps": 3}', '{"steps": {"a": 1, "b": {"needs": "x"}}}'])
def test_anything_in_a_folder_is_shown(damage: str, record: str, home: Path) -> None:
    (home / "runs" / FIRST / "events.jsonl").write_text(damage)
    (home / "runs" / FIRST / "run.json").write_text(record)
    call("runs")
    json.loads(call("runs", "--json").output)
    call("show", FIRST)
    json.loads(call("show", FIRST, "--json").output)


def test_damaged_lines_are_counted(home: Path) -> None:
    (home / "runs" / FIRST / "events.jsonl").write_text("{\n" + WHOLE)
    assert "of its event log 1 line cannot be read and is left out" in call("show", FIRST).output


def add(home: Path, letter: str, run: str, made: float) -> StoreEntry:
    entry = StoreEntry(letter * 64, run, "train", made, 60.0, 1000)
    Store(home).add(entry)
    return entry


def test_the_cache_is_listed(home: Path) -> None:
    Store(home).count(add(home, "a", FIRST, time.time() - 7200))
    lines = call("cache").output.splitlines()
    assert lines[1].split() == ["train", FIRST, "2", "h", "1.0", "kB", "1", "0", "s"]
    assert lines[2] == "1 step, 1.0 kB of outputs, 60 s of running saved"


def test_prune_forgets_what_is_old(home: Path) -> None:
    add(home, "a", FIRST, time.time() - 40 * 86400)
    add(home, "b", SECOND, time.time())
    assert call("cache", "prune").output == "forgot 1 step\n"
    assert [entry.run for entry in Store(home).entries()] == [SECOND]
    assert call("cache", "prune").output == "nothing to remove\n"
    assert call("cache", "prune", "--all").output == "forgot 1 step\n"
    assert (home / "runs" / FIRST).exists()
    assert "is not an age" in call("cache", "prune", "--older", "soon", status=2).output


def test_prune_removes_runs_that_nothing_needs(home: Path) -> None:
    old = time.time() - 86400
    for run in (FIRST, SECOND):
        for path in (home / "runs" / run / "events.jsonl", home / "runs" / run):
            os.utime(path, (old, old))
    add(home, "b", SECOND, time.time())
    removed = call("cache", "prune", "--older", "1h", "--runs", stdin="n\n", status=1)
    assert FIRST in removed.output
    assert SECOND not in removed.output  # an entry that stays points there
    assert "removed 1 run" in call("cache", "prune", "--older", "1h", "--runs", "--yes").output
    assert sorted(path.name for path in (home / "runs").iterdir()) == [SECOND, "not-a-run.txt"]


def test_prune_leaves_what_goes_on_and_what_that_needs(home: Path) -> None:
    step = StepFolder(home / "runs" / SECOND / "steps" / "train")
    link_step(
        step, StepFolder(home / "runs" / FIRST / "steps" / "train"), ["model"], Original(FIRST, "train")
    )
    with hold_lock(home / "runs" / SECOND):
        assert call("cache", "prune", "--all", "--runs", "--yes").output == "nothing to remove\n"
    assert "removed 2 runs" in call("cache", "prune", "--all", "--runs", "--yes").output
    assert [path.name for path in (home / "runs").iterdir()] == ["not-a-run.txt"]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (89, "89 s"), (100, "2 min"), (7000, "2 h"), (200_000, "2 d")]
)
def test_ages(seconds: float, said: str) -> None:
    assert format_age(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (10**15, "1000 TB")],
)
def test_sizes(count: int, said: str) -> None:
    assert format_size(count) == said


def test_metrics_are_named_with_and_without_their_step_and_infinities_are_left_out() -> None:
    metrics = [("train", {"loss": 1.0, "worst": math.inf}), ("evaluate", {"loss": 2.0})]
    assert name_values(metrics) == {"loss": 2.0, "train.loss": 1.0, "evaluate.loss": 2.0}
