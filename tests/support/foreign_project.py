"""A project with a file of every kind that a command reads, and the folders of two runs."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from tests.support import run_folders

RUN = "20260102-030405-000"
NATIVE = "$schema: https://azuremlschemas.azureedge.net/latest/{}.schema.json\n"
TRAINING = """\
import argparse
import torch
import helper
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--data", default="data.csv")
options = parser.parse_args()
settings = open("settings.json")
data = torch.utils.data.TensorDataset(torch.rand(64, 4), torch.rand(64, 1))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(options.epochs):
    for features, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(features), labels)
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
"""
SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  shard: {uses: shard_data, compute: gpu, with: {data: ./data.csv, format: csv, label: label}}
  train:
    uses: train_ddp
    compute: gpu
    with: {model: ./net.py:make, epochs: 2}
    scale: {reference: {batch_size: 4, learning_rate: 0.05}}
"""
OWN = """\
name: own
compute:
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D4s_v3}
steps:
  say:
    command: python say.py
    code: ./say
    environment: {image: 'mcr.microsoft.com/azureml/x:1', conda_file: conda.yml}
    compute: cpu
    outputs: {metrics: {type: uri_folder}}
"""
FILES = {
    "worldsize.yml": "compute: {gpu-cluster: {instance_type: Standard_NC96ads_A100_v4}}\nregion: eastus\n",
    ".gitignore": "build/\n",
    "spec.yml": SPEC,
    "net.py": "def make(columns, classes):\n    return None\n",
    "own.yml": OWN,
    "say/say.py": "import os, lines\nopen('x', 'w')\n",
    "say/lines.py": "",
    "conda.yml": "name: e\ndependencies: [python=3.11, {pip: ['-r requirements.txt']}]\n",
    "requirements.txt": "numpy\n",
    "data.csv": "a,b,label\n" + "".join(f"{n},{n % 7},{n % 2}\n" for n in range(64)),
    "job.yml": NATIVE.format("commandJob")
    + """\
type: command
command: bash start.sh && python train.py --deepspeed ds.json --data ${{inputs.data}}
code: ./src
inputs: {data: {type: uri_file, path: ./data.csv}}
environment: {image: 'mcr.microsoft.com/azureml/x:1', conda_file: ./conda.yml}
compute: azureml:gpu-cluster
distribution: {type: pytorch, process_count_per_instance: 4}
""",
    "src/train.py": TRAINING,
    "src/helper.py": "import deepspeed\n",
    "src/start.sh": "echo start\n",
    "src/ds.json": '{"train_batch_size": 8}\n',
    "src/settings.json": "{}\n",
    "src/.amlignore": "*.tmp\n",
    "component.yml": NATIVE.format("commandComponent")
    + "type: command\nname: c\nversion: 1\ncommand: python say.py\ncode: ./say\n"
    + "environment: azureml:e:1\nadditional_includes: [./shared.py]\n"
    + "outputs: {metrics: {type: uri_folder}}\n",
    "shared.py": "print()\n",
    "pipeline.yml": NATIVE.format("pipelineJob")
    + "type: pipeline\nsettings: {default_compute: azureml:gpu-cluster}\n"
    + "jobs: {one: {type: command, component: ./component.yml}}\n",
    "schedule.yml": NATIVE.format("schedule")
    + "name: s\ntrigger: {type: cron, expression: '0 3 * * 1'}\ncreate_job: ./pipeline.yml\n",
    "known.json": '{"version": 1, "findings": {}}\n',
    "run.sh": "sed -i s/a/b/ job.yml\n",
    "workload.yml": "workload: {kind: convolutional, parameters: 25600000, forward_flops: 8200000000}\n"
    "training: {micro_batch: 8, precision: bf16, strategy: ddp}\n"
    "cluster: {instance_type: Standard_ND96isr_H100_v5, instance_count: 4}\n",
    "config.json": '{"subscription_id": "s", "resource_group": "g", "workspace_name": "w"}\n',
}
AZURE = ["--subscription", "s", "--resource-group", "g", "--workspace", "w"]
COMMANDS: dict[str, list[str]] = {
    "check": ["check", "."],
    "check a job": ["check", "job.yml"],
    "check a baseline": ["check", ".", "--baseline", "known.json"],
    "fix": ["check", "--fix", "--diff", "."],
    "plan": ["plan", "spec.yml"],
    "plan one's own": ["plan", "own.yml"],
    "compile": ["compile", "spec.yml", "-o", "out"],
    "compile again": ["compile", "own.yml", "-o", "build"],
    "run": ["run", "own.yml", "--no-track", "--environment", "current"],
    "run a job": ["run", "job.yml", "--dry-run"],
    "run a pipeline": ["run", "pipeline.yml", "--no-track", "--environment", "current"],
    "estimate": ["estimate", "workload.yml"],
    "advise": ["advise", "workload.yml", "--samples", "1e6", "--deadline", "24h"],
    "advise on a spec": ["advise", "spec.yml", "--deadline", "24h"],
    "adopt": ["adopt", "src/train.py", "--no-run"],
    "adopt and write": ["adopt", "src/train.py", "--no-run", "--write"],
    "init from a table": ["init", "new", "--from", "data.csv", "--yes"],
    "init from a script": ["init", "new", "--from", "src/train.py", "--yes"],
    "init from a pipeline": ["init", ".", "--from", "pipeline.yml", "--yes", "--force"],
    "show": ["show", "last"],
    "runs": ["runs"],
    "runs with metrics": ["runs", "--where", "accuracy>0"],
    "report": ["report", "last"],
    "resume": ["resume", "20260101", "--no-report"],
    "logs": ["logs", "last"],
    "diff": ["diff"],
    "cache": ["cache"],
    "explain": ["explain", "WS203"],
    "submit": ["submit", "spec.yml", "--dry-run", *AZURE],
    "catalogue": ["catalogue"],
    "lsp": ["lsp"],
    "serve": ["serve", "--print-env"],
    "serve a command": ["serve", "--", "true"],
}


def make_project(root: Path) -> None:
    """Write the project, with the folders of two runs below."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in ("20260101-030405-000", RUN):
        run = run_folders.FolderOfRun(root / ".worldsize", name, "own.yml")
        folder = run.step("train", "failed", reason="it failed", parameters={"epochs": "2"})
        (folder / "logs").mkdir()
        (folder / "logs" / "rank-0.log").write_text("one\ntwo\n")
        run_folders.report_progress(folder, 6)
        made = folder / "outputs" / "metrics"
        made.mkdir(parents=True)
        (made / "metrics.json").write_text('{"accuracy": 0.9}')
        (made / "registration.json").write_text('{"name": "m", "version": 1}')
        ended = run.finish("failed", compiled=False, track=False)
        (ended / "lock").write_text("1\n")
        if name != RUN:
            continue
        (ended / "pipeline").mkdir()
        (ended / "pipeline" / "plan.json").write_text("{}")
        (ended / "pipeline" / "pipeline.yml").write_text(FILES["pipeline.yml"])
    with contextlib.closing(sqlite3.connect(root / ".worldsize" / "mlflow.db")) as connection:
        connection.executescript(run_folders.TABLES)
