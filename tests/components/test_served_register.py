"""`register` and `promote` with azureml-mlflow as the tracker, in a workspace of `worldsize serve`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Served, serving

pytest.importorskip("azureml.mlflow", reason="pip install 'worldsize[test]'")
pytestmark = [pytest.mark.run, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

PREPARE = """
import json, sys
import mlflow
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential
import numpy as np
class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return np.full((len(model_input), 10), 0.1, np.float32)
example = np.ones((3, 64), np.float32)
mlflow.pyfunc.save_model("model", python_model=Model(), pip_requirements=["numpy"], input_example=example)
ml = MLClient(DefaultAzureCredential(), "s", "g", "w")
uri = ml.workspaces.get("w").mlflow_tracking_uri
mlflow.set_tracking_uri(uri)
print(json.dumps([uri, mlflow.MlflowClient().create_run("0").info.run_id]))
"""
READ = """
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential
ml = MLClient(DefaultAzureCredential(), "s", "g", "w")
for model in ml.models.list("digits"):
    print(model.version, model.type, model.description, model.tags["metric.accuracy"], model.tags["team"])
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as each:
        yield each


def test_a_model_is_registered_once_and_is_the_workspaces(
    component: Callable[..., Any], served: Served, tmp_path: Path
) -> None:
    uri, run = json.loads(served.python(PREPARE).splitlines()[-1])
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "metrics.json").write_text('{"accuracy": 0.961}', encoding="utf-8")
    job = {
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_RUN_ID": run,
        "AZUREML_RUN_ID": run,
        "MLFLOW_EXPERIMENT_ID": "0",
    }
    for _ in range(2):
        done = component(
            "register",
            env={**served.environment, **job},
            model=tmp_path / "model",
            metrics=tmp_path / "metrics",
            model_name="digits",
            description="Weekly",
            tags="team=vision",
            registration=tmp_path / "registration",
        )
        assert done.returncode == 0, done.stderr
        assert "loaded back models:/digits/1: it predicts 3 rows" in done.stdout.splitlines()
    assert served.python(READ).splitlines() == ["1 mlflow_model Weekly 0.961 vision"]


THREE = """
from azure.ai.ml import MLClient
from azure.ai.ml.entities import Model
from azure.identity import DefaultAzureCredential
ml = MLClient(DefaultAzureCredential(), "s", "g", "w")
for number in range(3):
    ml.models.create_or_update(Model(name="digits", path="model", type="mlflow_model"))
print(ml.workspaces.get("w").mlflow_tracking_uri)
"""
MARKED = """
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential
ml = MLClient(DefaultAzureCredential(), "s", "g", "w")
print([model.version for model in ml.models.list("digits") if model.tags.get("champion") == "true"])
"""
WORKSPACE = ("--subscription", "s", "--resource-group", "g", "--workspace", "w")


def test_what_is_promoted_in_a_workspace_is_rolled_back_there(
    component: Callable[..., Any], served: Served, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}\n", encoding="utf-8")
    uri = served.python(THREE).splitlines()[-1]
    steps = tmp_path / "steps"
    steps.mkdir()

    def promote(version: str, champion: str | None) -> dict[str, Any]:
        met = champion and {"name": "digits", "version": champion}
        registration = {"registered": True, "name": "digits", "version": version}
        comparison = {"verdict": "promote", "reason": f"{version} is better", "champion": met}
        (steps / "registration.json").write_text(json.dumps(registration), encoding="utf-8")
        (steps / "comparison.json").write_text(json.dumps(comparison), encoding="utf-8")
        done = component(
            "promote",
            env={**served.environment, "MLFLOW_TRACKING_URI": uri, "AZUREML_RUN_ID": f"job-{version}"},
            registration=steps,
            comparison=steps,
            promotion=steps,
        )
        assert done.returncode == 0, done.stderr
        promotion: dict[str, Any] = json.loads((steps / "promotion.json").read_text(encoding="utf-8"))
        return promotion

    def call(*words: str, status: int = 0) -> str:
        done = served.run(sys.executable, "-m", "worldsize", *words, *WORKSPACE)
        assert done.returncode == status, done.stdout + done.stderr
        return str(done.stdout + done.stderr)

    assert promote("1", None)["action"] == "promote"
    assert promote("2", "1")["action"] == "promote"
    listed = json.loads(call("models", "digits", "--json"))
    assert [(v["version"], v["champion"], v["evidence"]) for v in listed] == [
        ("1", False, "1 is better"),
        ("2", True, "2 is better"),
        ("3", False, None),
    ]
    said = "version 1 of digits is the champion\nno job promotes version 2 again\n"
    assert call("rollback", "digits") == said
    assert call("rollback", "digits", "1") == "version 1 of digits is already the champion\n"
    assert promote("2", "1")["reason"] == "version 2 was rolled back from, and is not promoted again"
    assert promote("3", "1")["champion"] == "3"
    assert served.python(MARKED).strip() == "['3']"
    assert "has no model `digit`" in call("models", "digit", status=1)
    assert "`digits` has no version `9`" in call("rollback", "digits", "9", status=1)
