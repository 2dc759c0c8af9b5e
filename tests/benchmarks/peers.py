"""Runs contenders as cold processes of an interpreter that has the peers, with time and peak memory of each.

The peers' requirements contradict those of one another, so they are in an environment of their own, which
`WORLDSIZE_BENCH_PYTHON` names: datasets, litdata and mosaicml-streaming, with torch, pillow and tokenizers.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPONENT = HERE.parents[1] / "components" / "shard_data" / "src" / "shard.py"
LIMIT_MIB, SHARDS = 512, 8
_MODULES = {"datasets": "datasets", "litdata": "litdata", "mds": "streaming.base.format"}


def peer_python() -> str:
    """Return the interpreter that has the peers."""
    return os.environ.get("WORLDSIZE_BENCH_PYTHON", sys.executable)


def find_peers() -> list[str]:
    """Return the peers that are installed; skips the test if there is none."""
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    names = [
        name
        for name, module in _MODULES.items()
        if subprocess.run([peer_python(), "-c", probe, module.partition(".")[0]], check=False).returncode == 0
    ]
    if not names:
        pytest.skip("no peer is installed; WORLDSIZE_BENCH_PYTHON names an interpreter with some")
    return names


def shard_command(data: Path, out: Path, **inputs: object) -> list[str]:
    """Return the command of `shard_data` with its default memory limit."""
    values = {"data": data, "shard_count": SHARDS, "memory_limit_mib": LIMIT_MIB, "shards": out, **inputs}
    return [sys.executable, str(COMPONENT), *(part for k, v in values.items() for part in (f"--{k}", str(v)))]


def compare_writers(job: str, source: Path, out: Path, ours: Sequence[str], rounds: int = 3) -> None:
    """Run ours and every peer in turn; print times and ratios.

    Fails if ours takes more memory than its limit, or more time than the fastest peer.
    """
    writer = [peer_python(), str(HERE / "peer_writers.py")]
    contenders = {"worldsize": list(ours)}
    contenders |= {peer: [*writer, peer, job, str(source), str(out)] for peer in find_peers()}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contenders}
    for _ in range(rounds):  # in turn, so that a slow moment of the machine hits all
        for name, command in contenders.items():
            os.sync()
            found[name].append(_measure(command, out))
    medians = {name: statistics.median(run[0] for run in runs) for name, runs in found.items()}
    print()
    for name, runs in found.items():
        busy, peak = statistics.median(run[1] for run in runs), max(run[2] for run in runs)
        print(f"{name:10} {medians[name]:7.2f} s, processors {busy:7.2f} s, {peak:6,.0f} MiB in one process")
    report_ratio(f"shard {job}", {name: 1 / seconds for name, seconds in medians.items()})
    assert max(run[2] for run in found["worldsize"]) <= LIMIT_MIB


def report_ratio(bench: str, rates: Mapping[str, float]) -> None:
    """Print how fast ours is against the fastest peer; fails if it is slower."""
    peers = {name: rate for name, rate in rates.items() if name != "worldsize"}
    fastest = max(peers, key=lambda name: peers[name])
    ratio = rates["worldsize"] / peers[fastest]
    print(json.dumps({"bench": bench, "against": fastest, "ratio": round(ratio, 3)}))
    assert ratio >= 1


def _measure(command: Sequence[str], out: Path) -> tuple[float, float, float]:
    """Return seconds, processor seconds, and MiB of the largest process of one cold run."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    assert process.returncode == 0, command
    shutil.rmtree(out)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
