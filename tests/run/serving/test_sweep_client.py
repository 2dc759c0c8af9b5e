"""What clients read of a sweep that has ended: its best trial, and the files of that trial."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from serving import serving

for module in ("azure.ai.ml", "mlflow"):
    pytest.importorskip(module, reason="pip install 'worldsize[serve,azure,test]'")
pytestmark = [pytest.mark.run, pytest.mark.timeout(240)]

SCRIPT = """
import sys
from pathlib import Path
import mlflow
mlflow.log_metric("accuracy", float(sys.argv[1]))
Path("outputs").mkdir(exist_ok=True)
Path("outputs/rate.txt").write_text(sys.argv[1])
"""
CLIENT = """
import logging, time
from pathlib import Path
from azure.ai.ml import MLClient, command, dsl
from azure.ai.ml.entities import Model
from azure.ai.ml.sweep import Choice
from azure.identity import DefaultAzureCredential
logging.disable(logging.WARNING)
ml = MLClient(DefaultAzureCredential(), "s", "g", "w")
trial = command(
    command="python train.py ${{inputs.rate}}", code="./code", inputs={"rate": 0.5},
    environment="azureml://registries/azureml/environments/sklearn-1.5/labels/latest", compute="cpu-cluster",
)(rate=Choice([0.25, 0.75]))
def sweep():
    node = trial.sweep(primary_metric="accuracy", goal="maximize", sampling_algorithm="grid")
    node.set_limits(max_total_trials=2, max_concurrent_trials=1)
    return node
@dsl.pipeline(default_compute="cpu-cluster")
def inside():
    sweep()
for made in [ml.jobs.create_or_update(sweep()), ml.jobs.create_or_update(inside())]:
    while (found := ml.jobs.get(made.name)).status not in ("Completed", "Failed", "Canceled"):
        time.sleep(0.1)
    if found.type == "pipeline":
        found = ml.jobs.get(next(iter(ml.jobs.list(parent_job_name=made.name))).name)
    best = found.properties["best_child_run_id"]
    path = f"azureml://jobs/{best}/outputs/artifacts/paths/outputs/"
    model = ml.models.create_or_update(Model(name="best", path=path, type="custom_model"))
    ml.models.download("best", model.version, download_path=best)
    (kept,) = Path(best).rglob("rate.txt")
    print(found.status.value if hasattr(found.status, "value") else found.status,
          found.properties["score"], kept.read_text())
"""


def test_the_best_trial_is_among_the_properties_of_a_sweep(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    with serving(tmp_path) as served:
        said = served.run(sys.executable, "-c", CLIENT, timeout=200)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[-2:] == ["Completed 0.75 0.75"] * 2
