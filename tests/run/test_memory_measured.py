"""Bytes that real strategies hold, and the largest resident set of a training, against what was planned."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ports import find_free_port

from worldsize.planning.memory import built_in, states
from worldsize.planning.memory.estimate import estimate
from worldsize.planning.memory.network import Setup

pytestmark = [pytest.mark.run, pytest.mark.timeout(300)]

WORKER = Path(__file__).with_name("memory_ranks.py")
SIZES = (2, 4, 256)  # layers, heads, width: 1.7 million weights
BASE: dict[str, Any] = {
    "strategy": "ddp",
    "data": 2,
    "tensor": 1,
    "pipeline": 1,
    "sizes": SIZES,
    "precision": "fp32",
    "optimizer": "adamw",
    "momentum": 0.9,
    "stage": 0,
    "accumulation": 2,
    "micro_batch": 2,
    "tokens": 16,
    "updates": 1,
}
# One line a strategy: what differs from BASE.
CASES: dict[str, dict[str, Any]] = {
    "ddp": {},
    "ddp, momentum": {"optimizer": "sgd"},
    "ddp, plain sgd": {"optimizer": "sgd", "momentum": 0.0},
    "ddp, bf16": {"precision": "bf16"},
    "fsdp": {"strategy": "fsdp", "accumulation": 1},
    "fsdp, bf16": {"strategy": "fsdp", "precision": "bf16", "accumulation": 1},
    "tensor": {"strategy": "tensor_parallel", "data": 1, "tensor": 2},
    "pipeline": {"strategy": "pipeline_parallel", "data": 1, "pipeline": 2},
}
ZERO: dict[str, dict[str, Any]] = {
    "zero 1": {"stage": 1},
    "zero 1, bf16": {"stage": 1, "precision": "bf16"},
    "zero 2": {"stage": 2},
    "zero 2, bf16": {"stage": 2, "precision": "bf16"},
    "zero 3": {"stage": 3},
    "zero 3, bf16": {"stage": 3, "precision": "bf16"},
}
ZERO = {name: {"strategy": "deepspeed", "accumulation": 1, **case} for name, case in ZERO.items()}
OF_SETUP = (
    "strategy", "data", "tensor", "pipeline", "micro_batch", "accumulation", "optimizer", "momentum",
    "precision", "stage",
)  # fmt: skip
Measured = list[dict[str, dict[str, int]]]


def setup_of(case: dict[str, Any]) -> Setup:
    return Setup(gpu=False, **{name: case[name] for name in OF_SETUP})


def measure(cases: dict[str, dict[str, Any]], ranks: int, folder: Path) -> Measured:
    """Run the worker on some ranks; what each counted, by rank."""
    port = str(find_free_port())
    common = {"WORLD_SIZE": str(ranks), "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    common |= {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, str(WORKER), json.dumps(cases), str(folder)]
    started = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(ranks)
    ]
    try:
        assert [process.wait(timeout=240) for process in started] == [0] * ranks
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Every case, one after the other in one pair of processes."""
    cases = {name: BASE | case for name, case in CASES.items()}
    if importlib.util.find_spec("deepspeed") is not None:
        cases |= {name: BASE | case for name, case in ZERO.items()}
    return measure(cases, 2, tmp_path_factory.mktemp("memory"))


@pytest.mark.parametrize("name", CASES)
def test_states_are_as_large_as_planned(name: str, counted: Measured) -> None:
    case = BASE | CASES[name]
    setup = setup_of(case)
    network = built_in.gpt(case["tokens"], *SIZES)
    stages = states.split_stages(network, setup.pipeline)
    for rank, measured in enumerate(found[name] for found in counted):
        index = rank if setup.pipeline > 1 else 0
        planned = states.rank_states(states.divide_parts(stages[index], setup.tensor), setup)
        for quantity in ("parameters", "gradients", "optimizer"):
            wanted = getattr(planned, quantity)
            assert measured[quantity] == pytest.approx(wanted, rel=0.05), (rank, quantity)


@pytest.mark.parametrize("name", ZERO)
def test_zero_holds_what_was_planned(name: str, counted: Measured) -> None:
    """DeepSpeed keeps states in several places, so all tensors of the process are counted together."""
    if name not in counted[0]:
        pytest.skip("DeepSpeed is not installed")
    case = BASE | ZERO[name]
    setup = setup_of(case)
    network = built_in.gpt(case["tokens"], *SIZES)
    planned = states.rank_states(network.parts, setup)
    wanted = planned.parameters + planned.gradients + planned.optimizer
    if setup.stage == 3:  # the bucket stays, and small tensors stay whole
        wanted += setup.bucket * setup.narrow + states.persistent_bytes(network.parts, setup)
    for measured in (found[name] for found in counted):
        bucket = setup.bucket * setup.narrow if setup.stage == 3 else 0
        assert measured["total"] - bucket == pytest.approx(wanted - bucket, rel=0.05)
        assert measured["parameters"] == pytest.approx(planned.parameters, rel=0.05)


def test_peak_of_a_hundred_million_weights_is_foreseen(tmp_path: Path) -> None:
    """Resident memory above that of the process after its imports; momentum takes 12 bytes a weight."""
    sizes = (8, 8, 1024)
    case = BASE | {"data": 1, "sizes": sizes, "optimizer": "sgd", "accumulation": 1, "tokens": 64}
    (found,) = measure({"large": case}, 1, tmp_path)
    network = built_in.gpt(case["tokens"], *sizes)
    assert network.trained > 100_000_000
    planned = estimate(network, setup_of(case))
    assert planned is not None
    expected = planned.total - planned.reserve - planned.checkpoint  # nothing is saved here
    assert found["large"]["peak"] == pytest.approx(expected, rel=0.15)


ORACLE = Path(__file__).parents[1] / "support" / "memory_oracle.py"


def test_the_peak_of_a_step_is_that_of_the_memory_tracker() -> None:
    """PyTorch's own count of two steps of each training, in a process of its own, is at most 5 % off."""
    command = [sys.executable, str(ORACLE), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    assert len(rows) >= 12
    assert not [row for row in rows if row[2] != pytest.approx(row[1], rel=0.05)]
