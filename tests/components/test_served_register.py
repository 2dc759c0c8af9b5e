"""`register` with azureml-mlflow as the tracker, in the workspace that `worldsize serve` offers."""

from __future__ import annotations

import json
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
