"""Pipelines in Python: what `check` says of their plan, arithmetic on inputs, and one that runs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from worldsize.cli.main import main

pytestmark = [pytest.mark.run, pytest.mark.filterwarnings("default")]  # the client uses what is deprecated

azure = pytest.importorskip("azure.ai.ml")

import worldsize  # noqa: E402

DIGITS = """
import worldsize
from azure.ai.ml import dsl
shard_data, train_ddp = map(worldsize.components.load, ("shard_data", "train_ddp"))

@dsl.pipeline(compute="cpu-cluster")
def digits(epochs=3):
    shard = shard_data(source="builtin:digits")
    train = train_ddp(shards=shard.outputs.shards, epochs=epochs * 2)
    train.compute = "gpu-cluster"
    train.resources.instance_count = 2

def planned():
    job = digits()
    scale = {"train": {"reference": {"batch_size": 32, "learning_rate": 0.05}}}
    worldsize.plan(job, instance_types={"gpu-cluster": "Standard_NC96ads_A100_v4"}, scale=scale)
    return job
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.smoke
def test_check_says_what_plan_says(here: Path) -> None:
    (here / "pipe.py").write_text(DIGITS)
    planned = CliRunner().invoke(main, ["plan", "pipe.py:planned"])
    assert planned.exit_code == 0, planned.output
    checked = CliRunner().invoke(main, ["check", "pipe.py:planned", "--min-severity", "info", "--json"])
    found = json.loads(checked.stdout)["diagnostics"]
    said = [f"{each['severity']}[{each['code']}] {each['message']}" for each in found]
    assert len(set(said)) == len(said)
    assert [line for line in planned.stderr.splitlines() if "[WS" in line] != []
    for line in planned.stderr.splitlines():
        assert "[WS" not in line or line.split(": ", 1)[1] in said
    assert any("WS720" in each for each in said)
    place = next(each for each in found if each["code"] == "WS720")
    assert place["path"] == "pipe.py"
    assert "instance_count" in DIGITS.splitlines()[place["line"] - 1]


def test_arithmetic_on_inputs_is_read_and_runs(here: Path) -> None:
    """The client makes a component of it, in a temporary folder."""
    show = azure.command(
        command="echo epochs ${{inputs.epochs}}",
        environment=azure.entities.Environment(image="ubuntu:24.04"),
        inputs={"epochs": azure.Input(type="integer")},
    )

    @azure.dsl.pipeline(compute="cpu-cluster")
    def doubled(epochs=3):
        show(epochs=epochs * 2)

    report = worldsize.check(doubled(), min_severity="info")
    assert "WS034" not in {each.code for each in report.diagnostics}
    (component,) = here.glob(".worldsize/pipelines/expression-*/component_spec.yml")
    assert str(component.relative_to(here)) in report.files
    if importlib.util.find_spec("mldesigner"):
        result = worldsize.run(doubled(), track=False)
        assert "epochs 6\n" in [each.read_text() for each in result.folder.glob("steps/*/logs/rank-0.log")]


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import worldsize
from test_python_plans import make_drawn_job

def drawn():
    return make_drawn_job()
"""


def make_drawn_job() -> Any:
    """A pipeline as somebody draws it in the designer: four components, connected, nothing typed."""
    shard_data, train_ddp, evaluate, register = map(
        worldsize.components.load, ("shard_data", "train_ddp", "evaluate", "register")
    )

    @azure.dsl.pipeline(compute="cpu-cluster")
    def drawn():
        shard = shard_data()
        train = train_ddp(shards=shard.outputs.shards)
        score = evaluate(model=train.outputs.model, shards=shard.outputs.shards)
        register(model=train.outputs.model, metrics=score.outputs.metrics)

    return drawn()


@pytest.mark.timeout(300)
def test_a_pipeline_that_is_drawn_from_defaults_trains_and_registers(here: Path) -> None:
    """From the command line too: `file.py:function`."""
    job = make_drawn_job()
    assert job._validate().passed
    assert worldsize.check(job).render("concise").splitlines() == ["nothing found in 1 file"]
    (here / "drawn.py").write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", "run", "drawn.py:drawn"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits-cnn version 1" in done.stdout
    (metrics,) = here.glob(".worldsize/runs/*/**/metrics.json")
    assert json.loads(metrics.read_text())["accuracy"] >= 0.97
