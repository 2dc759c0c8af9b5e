"""Everything dies while a model is registered: the resumed run leaves one version and one MLflow run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

COMPONENT = Path(__file__).parents[2] / "components" / "register" / "component.yml"
PIPELINE = f"""
type: pipeline
experiment_name: registering
compute: azureml:cpu
jobs:
  register:
    component: {COMPONENT}
    inputs:
      model: {{type: mlflow_model, path: ./model}}
      metrics: {{type: uri_folder, path: ./metrics}}
      model_name: digits
      description: Weekly
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    import mlflow
    import numpy as np

    class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return model_input

    mlflow.pyfunc.save_model(
        str(tmp_path / "model"),
        python_model=Model(),
        pip_requirements=["numpy"],
        input_example=np.ones((3, 2), np.float32),
    )
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "metrics.json").write_text('{"accuracy": 0.97}')
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    return tmp_path


def kill_when(reached: Path, runner: subprocess.Popen[bytes]) -> None:
    """Kill a runner and all its processes at once, when a step has come so far."""
    while not reached.exists():
        assert runner.poll() is None
        time.sleep(0.02)
    whole = [*psutil.Process(runner.pid).children(recursive=True), psutil.Process(runner.pid)]
    for process in whole:
        process.kill()
    runner.wait()
    psutil.wait_procs(whole, timeout=10)


@pytest.mark.parametrize(
    "moment", ["log_artifacts", pytest.param("create_model_version", marks=pytest.mark.smoke)]
)
def test_kill_nine_of_everything_leaves_one_version(project: Path, moment: str) -> None:
    from mlflow import MlflowClient

    worldsize = [sys.executable, "-m", "worldsize"]
    halting = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).with_name("halts")),
        "HALT_AFTER": f"{moment} {project / 'reached'}",
    }
    command = [*worldsize, "run", "pipeline.yml", "-q", "--environment", "current"]
    with subprocess.Popen(command, cwd=project, env=halting) as runner:
        kill_when(project / "reached", runner)
    resumed = subprocess.run(
        [*worldsize, "resume", "last"], cwd=project, timeout=200, capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr

    client = MlflowClient(f"sqlite:///{project / '.worldsize' / 'mlflow.db'}")
    (version,) = client.search_model_versions("name = 'digits'")
    (folder,) = (project / ".worldsize" / "runs").iterdir()
    assert version.tags["worldsize.run"] == folder.name
    assert version.tags["worldsize.step"] == "register"
    assert version.tags["worldsize.attempt"] == "2"
    assert version.description == "Weekly"
    step = folder / "steps" / "register"
    registration = json.loads((step / "outputs" / "registration" / "registration.json").read_text())
    assert (registration["registered"], registration["version"]) == (True, "1")
    log = (step / "logs" / "rank-0.log").read_text()
    assert ("was registered by an earlier attempt" in log) == (moment == "create_model_version")

    experiment = client.get_experiment_by_name("registering")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.data.tags.get("worldsize.step", "") for run in runs) == ["", "register"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert version.run_id in {run.info.run_id for run in runs}
    (kept,) = (project / ".worldsize" / "artifacts").rglob("MLmodel")
    assert kept.parent.name == "model"
