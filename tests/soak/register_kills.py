"""Runs killed while they register: whenever everything dies, one version of the model is there in the end.

``python tests/soak/register_kills.py --kills 20`` starts as many runs of `register`, kills each with all its
processes by SIGKILL at a random moment of the step, resumes it, and counts versions and MLflow's runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kills import MAX_RESUMES, inside, kill, start

from worldsize.running.record.history import load_run

COMPONENT = Path(__file__).parents[2] / "components" / "register" / "component.yml"
PIPELINE = """\
type: pipeline
experiment_name: registering
compute: azureml:cpu
jobs:
  register:
    component: {component}
    inputs:
      model: {{type: mlflow_model, path: ./model}}
      metrics: {{type: uri_folder, path: ./metrics}}
      model_name: model-{number}
"""
VERSIONS = "select name, count(*) from model_versions where current_stage != 'Deleted_Internal' group by name"
STEP_RUNS = """
select count(*) from tags join runs using (run_uuid) where key = 'worldsize.run' and value = ?
and run_uuid in (select run_uuid from tags where key = 'worldsize.step' and value = 'register')
"""
TAGS = "select key, value from model_version_tags where name = ?"


def prepare(folder: Path) -> None:
    """A model and its metrics."""
    import mlflow
    import numpy as np

    class Model(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        """Answers what it is asked."""

        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            """Return the rows."""
            return model_input

    example = np.ones((3, 2), np.float32)
    mlflow.pyfunc.save_model(
        str(folder / "model"), python_model=Model(), pip_requirements=["numpy"], input_example=example
    )
    (folder / "metrics").mkdir()
    (folder / "metrics" / "metrics.json").write_text('{"accuracy": 0.97}')


def step_started(folder: Path, runs: int) -> bool:
    """Whether the newest run has started its step."""
    logs = list((folder / ".worldsize" / "runs").glob("*/events.jsonl"))
    return len(logs) > runs and "step_started" in max(logs).read_text()


def round_(folder: Path, number: int, seconds: float | None, moments: Counter[str]) -> float:
    """One run, killed after so many seconds of its step, and resumed; how long an undisturbed step took."""
    (folder / "pipeline.yml").write_text(PIPELINE.format(component=COMPONENT, number=number))
    before = len(list((folder / ".worldsize" / "runs").glob("*")))
    runner = start(folder, "run", "pipeline.yml", "-q", "--environment", "current")
    while runner.poll() is None and not step_started(folder, before):
        time.sleep(0.01)
    began = time.monotonic()
    if seconds is None:
        runner.wait(300)
        return time.monotonic() - began
    while runner.poll() is None and time.monotonic() - began < seconds:
        time.sleep(0.005)
    kill("tree", runner, random.Random(0))
    runner.wait(60)
    found = dict(query(folder, VERSIONS))
    moments["after the version" if f"model-{number}" in found else "before the version"] += 1
    for _ in range(MAX_RESUMES):
        if load_run(max((folder / ".worldsize" / "runs").iterdir())).state == "succeeded":
            break
        start(folder, "resume", "last", "-q").wait(300)
    print(f"{number}: killed after {seconds:.1f} s", file=sys.stderr, flush=True)
    return 0.0


def query(folder: Path, text: str, *values: str) -> list[tuple[str, str]]:
    """Rows of MLflow's database."""
    database = folder / ".worldsize" / "mlflow.db"
    if not database.exists():
        return []
    with sqlite3.connect(database, timeout=60) as connection:
        return connection.execute(text, values).fetchall()


def main() -> None:
    """Parse the arguments, kill, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="worldsize-register-kills-"))
    prepare(folder)
    chance, begun = random.Random(given.seed), time.monotonic()
    moments: Counter[str] = Counter()
    whole = round_(folder, 0, None, moments)
    for number in range(1, given.kills + 1):
        round_(folder, number, chance.uniform(0.3, 1.0) * whole, moments)
    faults = []
    found = {name: int(count) for name, count in query(folder, VERSIONS)}
    for number in range(given.kills + 1):
        if found.get(f"model-{number}") != 1:
            faults.append(f"model-{number} has {found.get(f'model-{number}', 0)} versions")
        run = dict(query(folder, TAGS, f"model-{number}")).get("worldsize.run", "")
        if query(folder, STEP_RUNS, run) != [(1,)]:
            faults.append(f"model-{number}: {query(folder, STEP_RUNS, run)} MLflow runs of its step")
        place = folder / ".worldsize" / "runs" / run / "steps" / "register" / "outputs" / "registration"
        if json.loads((place / "registration.json").read_text())["version"] != "1":
            faults.append(f"model-{number}: its registration names another version")
    faults += [f"left: {each.pid} {each.info['cmdline']}" for each in inside(folder)]
    print(f"{given.kills} kills ({dict(moments)}), {len(faults)} faults; ", end="")
    print(f"{time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}")
    print("\n".join(faults))
    if faults:
        print(folder)
    else:
        shutil.rmtree(folder)
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
