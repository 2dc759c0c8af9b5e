"""The memory of real trainings on CPUs beside what `worldsize plan --memory` says of them.

Each training is a component's own entry on two ranks that meet through gloo: four steps with AdamW, two
checkpoints written beside them, the model exported at the end. What is measured is the largest resident set
of the rank with the most, as the kernel counts it up to the process's end.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from worldsize.azureml import component, snapshot
from worldsize.planning.memory import built_in
from worldsize.planning.memory.estimate import estimate
from worldsize.planning.memory.network import Setup

pytest.importorskip("torch")
pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

COMPONENTS = Path(__file__).parents[2] / "components"
TOKENS, MICRO_BATCH, RANKS = 64, 2, 2
SIZES = {"10 million": (6, 6, 384), "50 million": (16, 8, 512)}  # layers, heads, width
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ddp": ("train_ddp", {"strategy": "ddp"}, {"strategy": "ddp"}),
    "fsdp": ("train_ddp", {"strategy": "fsdp"}, {"strategy": "fsdp"}),
    **{
        f"zero {stage}": ("train_deepspeed", {"zero_stage": stage}, {"strategy": "deepspeed", "stage": stage})
        for stage in (1, 2, 3)
    },
}
TOLERANCE = 0.15


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    code, out = tmp_path_factory.mktemp("shard_data"), tmp_path_factory.mktemp("shards")
    write_snapshot("shard_data", code)
    command = [sys.executable, "shard.py", "--source", "builtin:python-source", "--shard_count", "2"]
    command += ["--sequence_length", str(TOKENS), "--shards", str(out)]
    subprocess.run(command, cwd=code, check=True, timeout=300, capture_output=True)
    return out


def write_snapshot(name: str, folder: Path) -> None:
    described, _ = component.read_component(COMPONENTS / name / "component.yml")
    assert described is not None
    merged, _ = snapshot.read_snapshot(described, COMPONENTS / name)
    for place in merged.listing():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(merged.content(place))


def largest_resident_set(name: str, values: dict[str, Any], folder: Path) -> int:
    """Train on two ranks; the bytes of the one with the most."""
    write_snapshot(name, folder / "code")
    inputs = yaml.safe_load((COMPONENTS / name / "component.yml").read_text(encoding="utf-8"))["inputs"]
    values = {key: port["default"] for key, port in inputs.items() if "default" in port} | values
    arguments = [part for key, value in values.items() if value != "" for part in (f"--{key}", str(value))]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS), "NODE_RANK": "0"}
    common |= {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "DS_ACCELERATOR": "cpu"}
    started = []
    for rank in range(RANKS):
        with (folder / f"log-{rank}").open("wb") as log:
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            command = [sys.executable, "train.py", *arguments]
            started.append(
                subprocess.Popen(command, cwd=folder / "code", env=common | own, stdout=log, stderr=log)
            )
    peak = 0
    try:
        while any(process.poll() is None for process in started):
            # Not what `wait4` says, which counts the compiler that DeepSpeed starts.
            peak = max(peak, *(high_water(process.pid) for process in started))
            time.sleep(0.02)
    finally:
        for process in started:
            process.kill()
            process.wait()
    for rank, process in enumerate(started):
        said = (folder / f"log-{rank}").read_text(encoding="utf-8", errors="replace")
        assert process.returncode == 0, f"rank {rank} of {shlex.join(arguments)}\n{said}"
    return peak


def high_water(pid: int) -> int:
    """The largest resident set of a process so far; 0 of one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_a_training_takes_what_was_planned(case: str, size: str, shards: Path, tmp_path: Path) -> None:
    name, given, setup = CASES[case]
    if name == "train_deepspeed":
        pytest.importorskip("deepspeed")
    layers, heads, width = SIZES[size]
    values = {
        "shards": shards, "model": "gpt", "gpt_layers": layers, "gpt_heads": heads, "gpt_width": width,
        "optimizer": "adamw", "learning_rate": 1e-4, "world_size": RANKS,
        "batch_size_per_device": MICRO_BATCH, "gradient_accumulation_steps": 1,
        "global_batch_size": MICRO_BATCH * RANKS, "stop_after_steps": 4, "checkpoint_every_steps": 2,
        "checkpoints": tmp_path / "checkpoints", "trained_model": tmp_path / "model", **given,
    }  # fmt: skip
    planned = estimate(
        built_in.gpt(TOKENS, layers, heads, width),
        Setup(**setup, data=RANKS, micro_batch=MICRO_BATCH, optimizer="adamw", gpu=False),
    )
    assert planned is not None
    measured = largest_resident_set(name, values, tmp_path)
    print(
        f"\n{case}, {size} weights: measured {measured / 1e6:,.0f} MB, planned {planned.total / 1e6:,.0f} MB,"
        f" ratio {measured / planned.total:.3f}"
    )
    assert measured == pytest.approx(planned.total, rel=TOLERANCE)
