"""What components ask of MLflow, asked of azureml-mlflow in a workspace on loopback."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.run, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

Run = Callable[..., Any]
SERVER = Path(__file__).with_name("azureml_workspace.py")
EXPERIMENT = "0"


@dataclass(frozen=True)
class Workspace:
    """A workspace that answers."""

    folder: Path
    tracking_uri: str
    client: Any  # of the MLflow server behind it

    def job(self) -> str:
        """Create a run as the service does for a job; returns its id."""
        return str(self.client.create_run(EXPERIMENT).info.run_id)

    def environment(self, run: str) -> dict[str, str]:
        """The variables that a job finds."""

        def part(content: dict[str, Any]) -> str:
            return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

        token = f"{part({'alg': 'none'})}.{part({'exp': int(time.time()) + 36_000})}.AAAA"
        return {
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            "MLFLOW_TRACKING_TOKEN": token,
            "MLFLOW_RUN_ID": run,
            "MLFLOW_EXPERIMENT_ID": EXPERIMENT,
            "MLFLOW_EXPERIMENT_NAME": "Default",
            "AZUREML_RUN_ID": run,
            "AZUREML_ROOT_RUN_ID": f"pipeline-{run}",
            "AZUREML_CURRENT_CLOUD": "AzureCloud",
            "REQUESTS_CA_BUNDLE": str(self.folder / "ca.pem"),
            "NO_PROXY": "127.0.0.1,localhost",
        }

    @contextlib.contextmanager
    def denied(self, what: str) -> Iterator[None]:
        """Refuse requests whose method and path contain this text."""
        (self.folder / "denied").write_text(what)
        try:
            yield
        finally:
            (self.folder / "denied").unlink()

    def versions(self, name: str) -> list[Any]:
        """The versions of a registered model, oldest first."""
        found = self.client.search_model_versions(f"name = '{name}'")
        return sorted(found, key=lambda version: int(version.version))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """The workspace, which ends with the module."""
    from mlflow import MlflowClient

    folder = tmp_path_factory.mktemp("workspace")
    with (folder / "log").open("wb") as log:
        command = [sys.executable, str(SERVER), str(folder)]
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 200
        while not (folder / "ready.json").exists():
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        ready = json.loads((folder / "ready.json").read_text())
        backend = f"http://127.0.0.1:{ready['backend']}"
        yield Workspace(folder, ready["tracking_uri"], MlflowClient(backend, backend))
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of digits."""
    import mlflow
    import numpy as np

    class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return np.full((len(model_input), 10), 0.1, np.float32)

    path = tmp_path_factory.mktemp("saved") / "model"
    example = np.ones((3, 64), np.float32)
    mlflow.pyfunc.save_model(
        str(path),
        python_model=Model(),
        pip_requirements=["numpy"],
        input_example=example,
        metadata={"worldsize": {"world_size": 8}},
    )
    return path


@pytest.fixture
def register(component: Run, workspace: Workspace, model: Path, tmp_path: Path) -> Run:
    """Run `register` as a job of the workspace: `register(run, model_name)`."""
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "metrics.json").write_text('{"accuracy": 0.961, "loss": 0.15}')

    def run(job: str, name: str) -> Any:
        return component(
            "register",
            env=workspace.environment(job),
            model=model,
            metrics=tmp_path / "metrics",
            model_name=name,
            gate="accuracy >= 0.95",
            description="Weekly",
            tags="team=vision",
            registration=tmp_path / "registration",
        )

    return run


def test_register_makes_one_version_for_a_job_however_often_it_starts(
    register: Run, workspace: Workspace, tmp_path: Path
) -> None:
    job = workspace.job()
    done = register(job, "digits")
    assert done.returncode == 0, done.stderr
    assert "loaded back models:/digits/1: it predicts 3 rows" in done.stdout.splitlines()
    again = register(job, "digits")  # as after an eviction that came just after its work was done
    assert again.returncode == 0, again.stderr
    (version,) = workspace.versions("digits")
    assert version.description == "Weekly"
    assert version.run_id == job
    assert version.tags["worldsize.run"] == f"pipeline-{job}"
    assert version.tags["worldsize.step"] == job
    assert version.tags["worldsize.attempt"] == "2"
    assert version.tags["worldsize.world_size"] == "8"
    assert version.tags["metric.accuracy"] == "0.961"
    assert version.tags["team"] == "vision"
    assert version.source.startswith("azureml://")
    registration = json.loads((tmp_path / "registration" / "registration.json").read_text())
    assert (registration["version"], registration["uri"]) == ("1", "models:/digits/1")
    assert workspace.client.get_run(job).info.status == "RUNNING"  # the platform ends it
    other = register(workspace.job(), "digits")
    assert other.returncode == 0, other.stderr
    assert [each.version for each in workspace.versions("digits")] == ["1", "2"]


@pytest.mark.parametrize("request_", ["model-versions/create", "PUT /blob/", "registered-models/create"])
def test_what_the_identity_may_not_do_is_one_sentence(
    register: Run, workspace: Workspace, tmp_path: Path, request_: str
) -> None:
    name = f"denied-{request_[:3].lower()}"
    job = workspace.job()
    with workspace.denied(request_):
        done = register(job, name)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert said[0].startswith("error: MLflow does not register the model: ")
    assert "is not authorized to perform this action" in said[0]
    assert not (tmp_path / "registration").exists()
    if request_ == "model-versions/create":
        # Permitted now, the job is started again. What it had uploaded is there, and cannot be replaced.
        done = register(job, name)
        assert done.returncode == 0, done.stderr
        (version,) = workspace.versions(name)
        assert version.source.endswith("/model-2")


def test_evaluate_logs_once_what_a_run_has_room_for(
    component: Run,
    workspace: Workspace,
    model: Path,
    built_in_shards: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    job = workspace.job()
    shards = built_in_shards("digits")
    values = {"model": model, "shards": shards, "metrics": tmp_path / "metrics"}
    for _ in range(2):
        done = component("evaluate", env=workspace.environment(job), **values)
        assert done.returncode == 0, done.stderr
    run = workspace.client.get_run(job)
    measured = json.loads((tmp_path / "metrics" / "metrics.json").read_text())
    assert run.data.metrics == pytest.approx(measured)
    for name in run.data.metrics:
        assert len(workspace.client.get_metric_history(job, name)) == 1, name
    assert (workspace.folder / "blobs" / job / "confusion_matrix.png").stat().st_size > 1000
    assert run.info.status == "RUNNING"
    with workspace.denied("artifacts/batch/metadata"):
        done = component("evaluate", env=workspace.environment(workspace.job()), **values)
    assert done.returncode == 2, done.stderr
    assert "error: MLflow does not take the metrics: " in done.stderr
    assert "is not authorized to perform this action" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["train_ddp", "train_tensorflow"])
def test_training_is_tracked_and_joins_its_run_when_it_starts_again(
    training: Run, workspace: Workspace, built_in_shards: Callable[[str], Path], name: str
) -> None:
    job = workspace.job()
    batches = {"batch_size_per_device": 128, "global_batch_size": 128, "learning_rate": 0.1}
    values = {**batches, "shards": built_in_shards("digits"), "epochs": 1, "model": "mlp"}
    predicted = {
        "predicted_samples_per_second": 12900.0,
        "predicted_samples_per_second_low": 11000.0,
        "predicted_samples_per_second_high": 15100.0,
        "predicted_cluster": "2 x Standard_NC96ads_A100_v4, 8 GPUs",
    }
    values |= predicted
    for _ in range(2):  # the second time without a checkpoint: every step is done once more
        done = training(1, component=name, env=workspace.environment(job), timeout=200, **values)
        assert done.ok, done.errors
    run = workspace.client.get_run(job)
    assert run.data.params["epochs"] in ("1", "1.0")
    assert run.data.params["global_batch_size"] == "128"
    assert {key: run.data.params[key] for key in predicted} == {key: str(predicted[key]) for key in predicted}
    assert run.data.params["device"]
    steps = [each.step for each in workspace.client.get_metric_history(job, "loss")]
    assert steps == list(range(1, int(run.data.params["total_steps"]) + 1))
    assert run.info.status == "RUNNING"
    assert not [tag for tag in run.data.tags if tag.startswith("resumed.")]
    if name == "train_ddp":
        changed = training(
            1, component=name, env=workspace.environment(job), **{**values, "learning_rate": 0.05}
        )
        assert changed.ok, changed.errors
        run = workspace.client.get_run(job)
        assert run.data.tags["resumed.learning_rate"] == "0.05"
        assert len(workspace.client.get_metric_history(job, "loss")) == 2 * len(steps)
