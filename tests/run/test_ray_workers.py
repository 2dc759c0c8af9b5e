"""Ray Train's workers are planned like processes: a plan for 4 GPUs runs here with 2 real workers.

Runs only where `ray` is installed (`pip install "ray[train]"`); it is no dependency of the tests.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import worldsize

SPEC = """
name: own_ray
compute: {gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}}
steps:
  train:
    compute: gpu
    command: >-
      python train.py --num-workers ${{plan.world_size}} --out ${{outputs.out}}
      --accumulation ${{plan.gradient_accumulation_steps}}
    code: ./src
    environment: azureml:pytorch-training:7
    outputs: {out: uri_folder}
    timeout: 3600
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, epochs: 2, optimizer: sgd, rows: 1024}
"""
TRAIN = """
import argparse
import os

import torch
from ray.train import RunConfig, ScalingConfig, get_context, report
from ray.train.torch import TorchTrainer, prepare_model


def train_model(config):
    context = get_context()
    model = prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(0)
    rows = torch.randn(64, 4)[context.get_world_rank() :: context.get_world_size()]
    loss = model(rows).pow(2).mean()
    loss.backward()
    optimizer.step()
    count = torch.ones(1)
    torch.distributed.all_reduce(count)
    print("workers", int(count), flush=True)
    report({"loss": loss.item()})


parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=1)
parser.add_argument("--accumulation", type=int, default=1)
parser.add_argument("--out")
arguments = parser.parse_args()
scaling = ScalingConfig(num_workers=arguments.num_workers, use_gpu=torch.cuda.is_available())
run = RunConfig(storage_path=os.path.abspath(arguments.out))
TorchTrainer(train_model, scaling_config=scaling, run_config=run).fit()
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(TRAIN)
    (tmp_path / "spec.yml").write_text(SPEC)
    return tmp_path / "spec.yml"


def test_a_script_of_ray_is_planned_and_clean(spec: Path) -> None:
    step = worldsize.plan(spec).steps["train"]
    assert (step.topology.launcher, step.topology.command_launcher) == ("none", "Ray")
    assert (step.topology.process_count_per_instance, step.topology.world_size) == (1, 4)
    assert step.training is not None
    assert (step.training.global_batch_size, step.training.learning_rate) == (128, 0.2)
    assert [found.code for found in worldsize.check(spec).diagnostics] == ["WS225"]


def test_workers_of_a_data_loader_are_not_rays(spec: Path) -> None:
    spec.write_text(SPEC.replace("${{plan.world_size}}", "4"))
    assert worldsize.plan(spec).steps["train"].topology.command_launcher is None


@pytest.mark.smoke
@pytest.mark.run
@pytest.mark.timeout(240)
def test_the_planned_workers_start_here(spec: Path) -> None:
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", "run", "spec.yml", "--processes", "2"],
        cwd=spec.parent,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = spec.parent.glob(".worldsize/runs/*/steps/train/logs/rank-0.log")
    assert set(re.findall(r"workers (\d+)", log.read_text())) == {"2"}
    shutil.rmtree(spec.parent / ".worldsize")
