"""MLflow: a script's plain calls land in the run of its step; without MLflow everything runs all the same."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import worldsize
from worldsize.running.show.views import PlainView, render_summary

psutil = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # MLflow's own use of SQLAlchemy
]

SCRIPT = """
    import pathlib, sys
    import mlflow

    with mlflow.start_run():
        mlflow.log_param("epochs", 3)
        mlflow.log_metric("loss", 0.25, step=7)
        pathlib.Path("note.txt").write_text("kept")
        mlflow.log_artifact("note.txt")
    pathlib.Path(sys.argv[1], "metrics.json").write_text('{"loss": 0.25}')
"""
PIPELINE = """
    type: pipeline
    experiment_name: tracked
    display_name: A tracked run
    compute: azureml:cpu
    jobs:
      train:
        command: python train.py ${{outputs.metrics}}
        code: ./src
        environment: azureml:any@latest
        inputs: {rate: 0.5}
        outputs: {metrics: {type: uri_folder}}
      after:
        command: exit 4
        environment: azureml:any@latest
        inputs: {metrics: "${{parent.jobs.train.outputs.metrics}}"}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(textwrap.dedent(SCRIPT))
    path = tmp_path / "pipeline.yml"
    path.write_text(textwrap.dedent(PIPELINE))
    commit = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "x"]
    for command in (["git", "init", "-q"], ["git", "add", "."], commit):
        subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    return path


@pytest.mark.smoke
def test_steps_are_nested_runs_with_their_own_metrics(pipeline: Path, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    result = worldsize.run(pipeline, runs_dir=tmp_path / "home")
    assert result.state == "failed"
    assert result.exit_code == 1
    assert result.failure is not None
    assert result.failure.status == 4
    assert result.metrics == {"loss": 0.25}
    assert result.tracking_uri is not None
    assert "--host 127.0.0.1" in render_summary(result)

    client = MlflowClient(result.tracking_uri)
    experiment = client.get_experiment_by_name("tracked")
    assert experiment is not None
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"A tracked run", "train", "after"}
    whole, train, after = runs["A tracked run"], runs["train"], runs["after"]
    assert [run.info.status for run in (whole, train, after)] == ["FAILED", "FINISHED", "FAILED"]
    assert whole.data.params["train.rate"] == "0.5"
    assert whole.data.metrics == {"loss": 0.25}
    assert train.data.params == {"epochs": "3"}
    assert train.data.metrics == {"loss": 0.25}
    assert train.data.tags["mlflow.parentRunId"] == whole.info.run_id
    assert train.data.tags["worldsize.run"] == result.id
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert train.data.tags["mlflow.source.git.commit"] == head.stdout.strip()
    kept = list((tmp_path / "home" / "artifacts").rglob("note.txt"))
    assert [path.read_text() for path in kept] == ["kept"]


def trackers(runner: int) -> list[int]:
    """The pids of a runner's trackers."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(runner).children()
        return [each.pid for each in children if "tracker.py" in " ".join(each.cmdline())]
    return []


def sabotage(runner: subprocess.Popen[str], number: int, happened: Callable[[], bool]) -> None:
    """Send a signal to the tracker once something has happened."""
    deadline = time.monotonic() + 120
    while not (happened() and trackers(runner.pid)):
        assert time.monotonic() < deadline
        assert runner.poll() is None
        time.sleep(0.02)
    for pid in trackers(runner.pid):
        os.kill(pid, number)


SMALL = """
    type: pipeline
    experiment_name: sabotaged
    display_name: all of it
    compute: azureml:cpu
    jobs:
      one:
        command: touch up; until test -e go; do sleep 0.1; done; python log.py ${{outputs.o}}
        code: ./src
        environment: azureml:any@latest
        inputs: {rate: 0.5}
        outputs: {o: {type: uri_folder}}
      two:
        command: touch up; until test -e go; do sleep 0.1; done
        environment: azureml:any@latest
        inputs: {o: "${{parent.jobs.one.outputs.o}}"}
"""
LOGS = """
    import pathlib, sys
    from mlflow import MlflowClient
    import os

    MlflowClient().log_metric(os.environ["MLFLOW_RUN_ID"], "loss", 0.25)
    pathlib.Path(sys.argv[1], "metrics.json").write_text('{"loss": 0.25}')
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_tracker_that_fails_at_any_time_leaves_one_whole_record(tmp_path: Path, number: int) -> None:
    from mlflow import MlflowClient

    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "log.py").write_text(textwrap.dedent(LOGS))
    (tmp_path / "job.yml").write_text(textwrap.dedent(SMALL))
    command = [sys.executable, "-m", "worldsize", "run", "job.yml", "-q", "--environment", "current"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as runner:
        sabotage(runner, number, lambda: True)
        for step in ("one", "two"):
            place = f".worldsize/runs/*/steps/{step}/code/up"
            sabotage(runner, number, lambda place=place: bool(list(tmp_path.glob(place))))  # type: ignore[misc]
            next(tmp_path.glob(place)).with_name("go").touch()
        said, _ = runner.communicate(timeout=150)
    assert runner.returncode == 0, said
    assert "mlflow ui" in said
    client = MlflowClient(f"sqlite:///{tmp_path / '.worldsize' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("sabotaged")
    assert experiment is not None
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(run.info.run_name for run in client.search_runs([experiment.experiment_id])) == [
        "all of it",
        "one",
        "two",
    ]
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    whole = runs["all of it"]
    assert whole.data.params == {"one.rate": "0.5"}
    for run in (whole, runs["one"]):
        assert len(client.get_metric_history(run.info.run_id, "loss")) == 1
    assert {runs[name].data.tags["mlflow.parentRunId"] for name in ("one", "two")} == {whole.info.run_id}


def test_a_record_that_cannot_be_finished_is_told_and_not_green(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(
        "type: command\nexperiment_name: lost\ncompute: azureml:cpu\nenvironment: azureml:any@latest\n"
        "command: touch up; until test -e go; do sleep 0.1; done\n"
    )
    command = [sys.executable, "-m", "worldsize", "run", "job.yml", "-q"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as runner:
        place = ".worldsize/runs/*/steps/command/code/up"
        sabotage(runner, signal.SIGKILL, lambda: bool(list(tmp_path.glob(place))))
        next(tmp_path.glob(place)).with_name("go").touch()
        while runner.poll() is None:
            for pid in trackers(runner.pid):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        said = runner.communicate(timeout=30)[1]
    assert runner.returncode == 1
    assert (
        "error: the record of this run in MLflow is incomplete: the process that talks to MLflow has died"
        in said
    )
    assert "mlflow ui" in said  # it shows what there is


@pytest.mark.smoke
def test_what_is_said_again_is_written_once(tmp_path: Path) -> None:
    from worldsize.running.record.tracker import Record

    begin = {
        "uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
        "experiment": "twice",
        "name": "whole",
        "tags": {"worldsize.run": "r1"},
        "parameters": {"rate": "0.5"},
        "time": 1000,
    }
    first = Record(tmp_path, begin)
    step = first.step("one", "", 2000, repeated=False)
    # Killed before it could answer: the runner knows neither the run nor the step.
    second = Record(tmp_path, {**begin, "again": True, "known": None})
    assert second.run_id == first.run_id
    known = {"run_id": first.run_id, "runs": {}, "open": []}
    third = Record(tmp_path, {**begin, "again": True, "known": known})
    other = third.step("two", "", 2500, repeated=True)
    assert third.step("two", "", 2500, repeated=True) == other
    for record in (
        third,
        Record(tmp_path, {**begin, "known": {**known, "runs": {"two": other}, "open": ["two"]}}),
    ):
        record.end("two", "succeeded", 3000)
        record.finish("succeeded", {"loss": 0.5}, 4000)
    client = third._client
    runs = client.search_runs([third.experiment])
    assert {run.info.run_id for run in runs} == {first.run_id, step, other}
    ends = {run.info.run_id: (run.info.start_time, run.info.end_time, run.info.status) for run in runs}
    assert ends[first.run_id] == (1000, 4000, "FINISHED")
    assert ends[other] == (2500, 3000, "FINISHED")
    assert len(client.get_metric_history(first.run_id, "loss")) == 1


def test_two_first_runs_at_once_share_one_database(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(
        "type: command\nexperiment_name: both\ncompute: azureml:cpu\nenvironment: azureml:any@latest\n"
        "command: echo $MLFLOW_RUN_ID\n"
    )
    command = [sys.executable, "-m", "worldsize", "run", "job.yml", "-q"]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    texts = [process.communicate(timeout=150)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert all(" mlflow   " in text for text in texts), texts
    ids = {path.read_text() for path in tmp_path.glob(".worldsize/runs/*/steps/command/logs/rank-0.log")}
    assert len(ids) == 2
    assert not list((tmp_path / ".worldsize").glob("*.part*"))


@pytest.mark.smoke
def test_without_mlflow_steps_run_untracked_with_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hidden" / "mlflow").mkdir(parents=True)
    missing = "raise ModuleNotFoundError('No module named mlflow', name='mlflow')\n"
    (tmp_path / "hidden" / "mlflow" / "__init__.py").write_text(missing)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hidden"))
    (tmp_path / "job.yml").write_text(
        "type: command\ncompute: azureml:cpu\nenvironment: azureml:any@latest\ncommand: env\n"
    )
    lines: list[str] = []
    result = worldsize.run(tmp_path / "job.yml", runs_dir=tmp_path / "home", view=PlainView(lines.append))
    assert result.state == "succeeded"
    assert result.tracking_uri is None
    assert [line for line in lines if "MLflow" in line] == [
        "not tracked by MLflow: `mlflow` is not installed: `pip install 'worldsize[run]'`"
    ]
    assert "MLFLOW_RUN_ID" not in result.steps["command"].logs[0].read_text()


def test_kill_nine_of_the_runner_closes_its_runs(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    (tmp_path / "job.yml").write_text(
        "type: command\nexperiment_name: dead\ncompute: azureml:cpu\nenvironment: azureml:any@latest\n"
        "command: touch up; sleep 600\n"
    )
    command = [sys.executable, "-m", "worldsize", "run", "job.yml", "-q"]
    with subprocess.Popen(command, cwd=tmp_path) as runner:
        while not list(tmp_path.rglob("up")):
            time.sleep(0.05)
        children = psutil.Process(runner.pid).children(recursive=True)
        assert len(children) >= 4  # supervisor, guard, shell, tracker
        runner.kill()
    _, alive = psutil.wait_procs(children, timeout=15)
    assert not alive
    client = MlflowClient(f"sqlite:///{tmp_path / '.worldsize' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("dead")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.status for run in runs] == ["KILLED", "KILLED"]


@pytest.mark.smoke
def test_a_chosen_id_makes_the_run_that_mlflow_would_make(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    from worldsize.running.record.tracker import Record, chosen_artifacts

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tags = {"worldsize.run": "job", "mlflow.user": "me"}
    begin = {"uri": uri, "experiment": "e", "name": "whole", "tags": tags, "parameters": {}, "time": 1000}
    name = "job-1_of_2-with-more-than-32-characters"
    record = Record(tmp_path, {**begin, "run_id": name})
    usual = Record(tmp_path, begin).run_id
    assert record.run_id == name
    step = record.step("one", "", 2000, repeated=False, chosen="child")
    whole = record.step("two", "", 2000, repeated=False, chosen=name)  # a job of one step
    assert (step, whole) == ("child", name)
    assert record.step("one", "", 2000, repeated=True, chosen="child") == "child"
    record.end("two", "succeeded", 3000)
    client = MlflowClient(uri)
    client.log_metric("child", "loss", 0.5)
    client.log_text("child", "text", "a.txt")
    assert client.get_run(name).info.status == "RUNNING"  # `finish` ends it
    record.finish("succeeded", {}, 4000)
    assert client.get_run("child").data.tags["mlflow.parentRunId"] == name
    assert "mlflow.parentRunId" not in client.get_run(name).data.tags
    assert (chosen_artifacts(tmp_path / "artifacts", "child") / "a.txt").read_text() == "text"
    assert Record(tmp_path, {**begin, "run_id": name}).run_id == name  # it is open again
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection:
        connection.row_factory = sqlite3.Row
        rows = {row["run_uuid"]: dict(row) for row in connection.execute("SELECT * FROM runs")}
    differing = {key for key, value in rows[usual].items() if rows[name][key] != value}
    assert differing == {"run_uuid", "artifact_uri", "end_time"}  # it has ended once
