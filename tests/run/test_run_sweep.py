"""Sweeps with real trials and real MLflow: the best one's outputs, failures, early termination."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from worldsize.running.record.tracking import LoggedMetric, Tracking

pytest.importorskip("mlflow")
pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(240)]

PIPELINE = """
    type: pipeline
    settings: {default_compute: azureml:c}
    jobs:
      search:
        type: sweep
        trial: ./train.yml
        inputs: {bias: 10}
        outputs: {model: {type: uri_folder}}
        sampling_algorithm: grid
        search_space:
          x: {type: choice, values: [3, 2, 0, 9]}
        objective: {goal: minimize, primary_metric: loss}
        early_termination: {type: bandit, slack_amount: 4}
        limits: {max_total_trials: 4, max_concurrent_trials: 2}
      use:
        command: cp -r ${{inputs.model}} copied && cat copied/x
        environment: azureml:e:1
        inputs: {model: "${{parent.jobs.search.outputs.model}}"}
"""
COMPONENT = """
    type: command
    name: train
    inputs: {bias: {type: integer}, x: {type: integer}}
    outputs: {model: {type: uri_folder}}
    code: ./src
    environment: azureml:e:1
    command: python train.py ${{inputs.x}} ${{inputs.bias}} ${{outputs.model}}
"""
TRAIN = """
    import os, sqlite3, sys, time
    from pathlib import Path

    x, bias = int(sys.argv[1]), int(sys.argv[2])
    assert os.environ["AZUREML_SWEEP_x"] == str(x)
    if x == 0:
        sys.exit(3)
    if x == 3:
        import mlflow

        mlflow.log_metric("loss", x + bias, step=0)
    else:  # the same, without the seconds of MLflow's import
        database = sqlite3.connect(os.environ["MLFLOW_TRACKING_URI"].removeprefix("sqlite:///"), 60)
        row = ("loss", x + bias, int(time.time() * 1000), os.environ["MLFLOW_RUN_ID"], 0, False)
        columns = "(key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)"
        with database:
            database.execute(f"INSERT INTO metrics {columns}", row)
            database.execute(f"INSERT INTO latest_metrics {columns}", row)
    if x == 9:
        time.sleep(60)  # longer than anybody waits, unless it is stopped
    Path(sys.argv[3], "x").write_text(str(x))
"""


def run(project: Any, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "worldsize", "run", "pipeline.yml", *words]
    done = subprocess.run(
        command, cwd=project.folder, capture_output=True, text=True, timeout=200, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_trials_read_what_an_earlier_step_has_written(project: Any) -> None:
    project.write(
        "pipeline.yml",
        """
        type: pipeline
        settings: {default_compute: azureml:c}
        jobs:
          write:
            command: echo 10 > ${{outputs.data}}/bias
            environment: azureml:e:1
            outputs: {data: {type: uri_folder}}
          search:
            type: sweep
            trial: ./train.yml
            inputs: {data: "${{parent.jobs.write.outputs.data}}"}
            outputs: {model: {type: uri_folder}}
            sampling_algorithm: grid
            search_space:
              x: {type: choice, values: [2, 1]}
            objective: {goal: minimize, primary_metric: loss}
            limits: {max_total_trials: 2, max_concurrent_trials: 1}
        """,
    )
    component = COMPONENT.replace("bias: {type: integer}", "data: {type: uri_folder}")
    project.write("train.yml", component.replace("${{inputs.bias}}", "$(cat ${{inputs.data}}/bias)"))
    project.write("src/train.py", TRAIN)
    code, text = run(project)
    assert code == 0, text
    assert "the best of 2 trials is trial-001: loss 11 with x 1" in text


@pytest.mark.smoke
def test_the_best_trial_gives_the_step_its_outputs(project: Any) -> None:
    project.write("pipeline.yml", PIPELINE)
    project.write("train.yml", COMPONENT)
    project.write("src/train.py", TRAIN)
    code, text = run(project)
    assert code == 0, text
    assert project.log("use") == "2"
    document = json.loads((project.newest / "steps" / "search" / "sweep.json").read_text())
    assert document["best"] == "search.trial-001"
    assert [(trial["state"], trial["value"]) for trial in document["trials"]] == [
        ("succeeded", 13.0),
        ("succeeded", 12.0),
        ("failed", None),
        ("stopped", 19.0),
    ]
    best = "the best of 4 trials (1 failed, 1 stopped early) is trial-001: loss 12 with x 2"
    assert best in text
    events = {event["event"]: event for event in project.events()}
    assert events["trial_stopped_early"]["policy"] == "bandit"
    assert (events["sweep_ended"]["parameters"], events["sweep_ended"]["value"]) == ({"x": 2}, 12.0)
    with contextlib.closing(sqlite3.connect(project.folder / ".worldsize" / "mlflow.db")) as database:
        tags = database.execute("SELECT run_uuid, key, value FROM tags").fetchall()
    (step,) = [run for run, key, value in tags if (key, value) == ("worldsize.step", "search")]
    (best_run,) = [run for run, key, value in tags if (key, value) == ("worldsize.step", "search.trial-001")]
    assert {(step, "best_child_run_id", best_run), (step, "score", "12.0")} <= set(tags)
    assert len([run for run, key, value in tags if (key, value) == ("mlflow.parentRunId", step)]) == 4
    with Tracking(project.folder / ".worldsize") as resumed:  # what a resumed run sees of ended trials
        resumed.start()
        resumed.begin("pipeline", "again", lambda: {"worldsize.run": project.newest.name}, {}, again=True)
        assert resumed.wait_for("search.trial-001", "loss", 100) == LoggedMetric((12.0,))
        assert resumed.wait_for("search.trial-001", "los", 100) == LoggedMetric((), ("loss",))
    # Its outputs are remembered as those of any step, and so is that nothing has changed.
    code, text = run(project)
    assert code == 0, text
    assert "search: reused" in text


@pytest.mark.smoke
def test_without_mlflow_a_sweep_says_what_it_needs(project: Any) -> None:
    project.write("pipeline.yml", PIPELINE)
    project.write("train.yml", COMPONENT)
    project.write("src/train.py", TRAIN)
    code, text = run(project, "--no-track")
    assert code == 1
    assert "sweep `search` reads `loss` of its trials from MLflow, and `--no-track` records nothing" in text
    assert not list((project.folder / ".worldsize" / "runs").iterdir())
