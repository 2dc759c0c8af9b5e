"""Our training loop against the plainest fast one: the same model, shards, optimizer and process group.

Two processes take turns at short stretches of both loops, so whatever else the machine does hits both; see
`train_loops.py` for what each loop does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
WANTED = 0.97


@pytest.mark.parametrize(("model", "source"), [("cnn", "digits"), ("gpt", "python-source")])
def test_the_loop_costs_next_to_nothing(model: str, source: str, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    library = str(ROOT / "components" / "_shared")
    command = [sys.executable, "shard.py", "--source", f"builtin:{source}", "--shards", str(shards)]
    code = ROOT / "components" / "shard_data" / "src"
    env = os.environ | {"PYTHONPATH": library}
    subprocess.run(command, cwd=code, env=env, check=True, timeout=100, capture_output=True)
    report = run_ranks(model, shards, tmp_path)
    print(f"\n{report}")
    assert float(report.split()[-1]) >= WANTED


def run_ranks(model: str, shards: Path, folder: Path) -> str:
    """Run both ranks to their end and return the last line of rank 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    group |= {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    command = [sys.executable, str(Path(__file__).with_name("train_loops.py")), model, str(shards)]
    ranks: list[subprocess.Popen[str]] = []
    try:
        for rank in ("0", "1"):
            env = os.environ | group | {"RANK": rank, "LOCAL_RANK": rank}
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, cwd=folder))
        outputs = [rank.communicate(timeout=800)[0] for rank in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0]
    return outputs[0].splitlines()[-1]
