"""Fills a workspace as its clients do, so that the page has something of each kind to show.

Run inside a workspace: `worldsize serve -- python tests/support/page_content.py FOLDER [PIPELINE]`. Prints
the names of the jobs as JSON. FOLDER gets the sources; PIPELINE is a compiled pipeline that runs too, twice.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# What a stranger may put into any name, tag or log: it must be shown and never run.
HOSTILE = "<img src=x onerror=\"window.hacked='yes'\"><script>window.hacked='yes'</script>{{ 7 * 7 }}"

TRAIN = """
import argparse, os, pathlib, time
import mlflow
parser = argparse.ArgumentParser()
parser.add_argument("--rows"); parser.add_argument("--rate", type=float); parser.add_argument("--model")
given = parser.parse_args()
rank = int(os.environ.get("RANK", 0))
print(f"rank {rank} reads", pathlib.Path(given.rows).read_text().strip())
print("HOSTILE")
if rank == 0:
    mlflow.log_params({"rate": given.rate, "note": "HOSTILE"})
    for step in range(30):
        loss = 2.5 / (1 + given.rate * step)
        mlflow.log_metrics({"loss": loss, "accuracy": 1 - 0.9 / (1 + step)}, step=step)
        print(f"step {step}: loss {loss:.4f}", flush=True)
    mlflow.log_text("seen", "notes/read.txt")
    folder = pathlib.Path(given.model); folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text('{"accuracy": 0.97}')
    (folder / "curve.csv").write_text("step,loss\\n0,2.5\\n1,HOSTILE\\n")
    (folder / "HOSTILE".replace("/", "|")).write_text("HOSTILE")
    (folder / "page.html").write_text("HOSTILE")
""".replace("HOSTILE", HOSTILE.replace('"', '\\"'))

COMPONENT = """
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
name: train_tiny
version: "1"
display_name: Train the tiny model
description: Logs a curve and writes a folder.
type: command
inputs:
  rows: {type: uri_file, description: What to train on.}
  rate: {type: number, default: 0.1, min: 0, max: 1, description: The learning rate.}
  epochs: {type: integer, default: 3, min: 1, max: 100}
  optimizer: {type: string, default: sgd, enum: [sgd, adam], description: How weights are changed.}
  shuffle: {type: boolean, default: true}
  note: {type: string, optional: true}
outputs:
  model: {type: uri_folder}
code: ./code
command: >-
  python train.py --rows ${{inputs.rows}} --rate ${{inputs.rate}} --model ${{outputs.model}}
environment: azureml:tiny@latest
distribution: {type: pytorch, process_count_per_instance: 2}
"""

PIPELINE = """
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
display_name: Tiny training
experiment_name: tiny
inputs:
  rate: 0.3
  greeting: hello
outputs:
  model: {type: uri_folder}
settings: {default_compute: azureml:cpu-cluster}
jobs:
  prepare:
    type: command
    command: echo ${{inputs.greeting}} > ${{outputs.rows}}/rows.txt && echo prepared
    environment: azureml:tiny@latest
    inputs: {greeting: "${{parent.inputs.greeting}}"}
    outputs: {rows: {type: uri_folder}}
  pick:
    type: command
    command: cp ${{inputs.rows}}/rows.txt ${{outputs.file}}
    environment: azureml:tiny@latest
    inputs: {rows: {path: "${{parent.jobs.prepare.outputs.rows}}", type: uri_folder}}
    outputs: {file: {type: uri_file}}
  train:
    type: command
    component: ./component.yml
    inputs: {rows: "${{parent.jobs.pick.outputs.file}}", rate: "${{parent.inputs.rate}}", epochs: 4}
    outputs: {model: "${{parent.outputs.model}}"}
"""

WAITING = """
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
display_name: Count slowly
experiment_name: waiting
command: for i in $(seq 1 600); do echo "line $i"; sleep 0.5; done
environment: azureml:tiny@latest
compute: azureml:cpu-cluster
"""


def write_sources(folder: Path) -> None:
    """Write what is submitted."""
    (folder / "code").mkdir(parents=True, exist_ok=True)
    texts = {
        "code/train.py": TRAIN,
        "component.yml": COMPONENT,
        "pipeline.yml": PIPELINE,
        "failing.yml": _failing_job(),
        "waiting.yml": WAITING,
        "prices.csv": "city,price\nBerlin,12\nPorto,9\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _failing_job() -> str:
    job = {
        "$schema": "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json",
        "type": "command",
        "display_name": HOSTILE,
        "experiment_name": "hostile",
        "tags": {HOSTILE: HOSTILE},
        "command": f"cat <<'END'\n{HOSTILE}\nEND\nexit 3",
        "environment": "azureml:tiny@latest",
        "compute": "azureml:cpu-cluster",
    }
    return json.dumps(job)  # JSON is YAML


def fill(client: Any, folder: Path, pipeline: Path | None) -> dict[str, str]:
    """Register assets and submit jobs; their names."""
    from azure.ai.ml import load_component, load_job
    from azure.ai.ml.entities import CronTrigger, Data, Environment, JobSchedule, Model

    write_sources(folder)
    client.environments.create_or_update(
        Environment(name="tiny", image="python:3.11-slim", description="Bare.")
    )
    client.data.create_or_update(
        Data(
            name="prices",
            version="1",
            path=str(folder / "prices.csv"),
            type="uri_file",
            tags={"from": HOSTILE},
        )
    )
    client.components.create_or_update(load_component(folder / "component.yml"))
    client.models.create_or_update(Model(name="lookup", path=str(folder / "prices.csv"), type="custom_model"))
    names = {}
    for name in ("pipeline", "failing"):
        names[name] = client.jobs.create_or_update(load_job(folder / f"{name}.yml")).name
    schedule = JobSchedule(
        name="nightly",
        display_name="Nightly training",
        trigger=CronTrigger(expression="0 3 * * 1", time_zone="W. Europe Standard Time"),
        create_job=load_job(folder / "pipeline.yml"),
    )
    client.schedules.begin_create_or_update(schedule).result()
    if pipeline is not None:
        names["first"] = client.jobs.create_or_update(load_job(pipeline)).name
        second = load_job(pipeline)
        second.display_name = f"{second.display_name}, smaller rate"
        names["second"] = client.jobs.create_or_update(second).name
    names["waiting"] = client.jobs.create_or_update(load_job(folder / "waiting.yml")).name
    return names


if __name__ == "__main__":
    from azure.ai.ml import MLClient
    from azure.identity import DefaultAzureCredential

    folder, *rest = map(Path, sys.argv[1:])
    client = MLClient.from_config(DefaultAzureCredential(), path=str(folder))
    print(json.dumps(fill(client, folder, rest[0] if rest else None)))
