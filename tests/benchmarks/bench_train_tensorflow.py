"""Our TensorFlow loop against the plainest one: the same model, shards, optimizer and strategy.

Two workers take turns at short stretches of both loops, so whatever else the machine does hits both; see
`tensorflow_loops.py` for what each loop does.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HERE = importlib.util.find_spec("tensorflow")  # importing it takes seconds
pytestmark = [
    pytest.mark.skipif(HERE is None, reason="TensorFlow is not installed"),
    pytest.mark.bench,
    pytest.mark.timeout(900),
]

ROOT = Path(__file__).parents[2]
WANTED = 0.95


@pytest.mark.parametrize(("model", "source"), [("cnn", "digits"), ("gpt", "python-source")])
def test_the_loop_costs_next_to_nothing(model: str, source: str, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    library = {"PYTHONPATH": str(ROOT / "components" / "_shared")}
    command = [sys.executable, "shard.py", "--source", f"builtin:{source}", "--shards", str(shards)]
    code = ROOT / "components" / "shard_data" / "src"
    subprocess.run(command, cwd=code, env=os.environ | library, check=True, timeout=100, capture_output=True)
    report = run_workers(model, shards, tmp_path, library)
    print(f"\n{report}")
    assert float(report.split()[-1]) >= WANTED


def run_workers(model: str, shards: Path, folder: Path, library: dict[str, str]) -> str:
    """Run both workers to their end and return the last line of worker 0."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    for probe in probes:
        probe.close()
    tracking = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    command = [sys.executable, str(Path(__file__).with_name("tensorflow_loops.py")), model, str(shards)]
    workers: list[subprocess.Popen[str]] = []
    try:
        for index in range(2):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            env = os.environ | library | tracking | {"TF_CONFIG": json.dumps(config)}
            workers.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, cwd=folder))
        outputs = [worker.communicate(timeout=800)[0] for worker in workers]
    finally:
        for process in workers:
            process.kill()
    assert [process.returncode for process in workers] == [0, 0]
    return outputs[0].splitlines()[-1]
