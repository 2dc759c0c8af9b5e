"""`worldsize check` and `compile` of specs with 1,000 to 10,000 steps: a step costs the same in each."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

HEAD = """\
name: many_steps
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4, max_instances: 4}
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5, max_instances: 4}
steps:
"""
FOUR_STEPS = """\
  shard_{n}:
    uses: shard_data
    compute: cpu
    with: {{source: "builtin:digits"}}
  train_{n}:
    uses: train_ddp
    compute: gpu
    instance_count: 2
    timeout: 43200
    with: {{epochs: 2, optimizer: sgd, shards: "${{{{parent.jobs.shard_{n}.outputs.shards}}}}"}}
    scale: {{reference: {{batch_size: 32, learning_rate: 0.05}}, warmup_epochs: 1}}
  evaluate_{n}:
    uses: evaluate
    compute: cpu
    with:
      model: ${{{{parent.jobs.train_{n}.outputs.model}}}}
      shards: ${{{{parent.jobs.shard_{n}.outputs.shards}}}}
  own_{n}:
    compute: cpu
    environment: azureml:tools:1
    command: >-
      summarise --model ${{{{inputs.model}}}} --ranks ${{{{plan.world_size}}}} --out ${{{{outputs.report}}}}
    with: {{model: "${{{{parent.jobs.train_{n}.outputs.model}}}}"}}
    outputs: {{report: uri_folder}}
"""
SIZES = (1_000, 2_500, 10_000)
MAX_SECONDS = 10.0  # of processor time for the largest
MAX_GROWTH = 1.3  # of the time a step, from the smallest to the largest


@pytest.mark.parametrize("verb", ["check", "compile"])
def test_a_step_costs_the_same_however_many_there_are(verb: str, tmp_path: Path) -> None:
    seconds = {steps: _spent_seconds(verb, tmp_path, steps) for steps in SIZES}
    for steps, spent in seconds.items():
        print(f"{verb} {steps:>6} steps  {spent:6.2f} s  {1000 * spent / steps:.2f} ms a step")
    smallest, largest = SIZES[0], SIZES[-1]
    assert seconds[largest] / largest < MAX_GROWTH * seconds[smallest] / smallest
    assert seconds[largest] < MAX_SECONDS


def _spent_seconds(verb: str, folder: Path, steps: int) -> float:
    """Processor time of one command, its start included."""
    spec = folder / f"spec_{steps}.yml"
    groups = range(steps // 4)
    spec.write_text(HEAD + "".join(FOUR_STEPS.format(n=n) for n in groups), encoding="utf-8")
    options = ["-o", str(folder / f"out_{steps}")] if verb == "compile" else []
    command = [sys.executable, "-m", "worldsize", verb, str(spec), *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
