"""Our training loop under Horovod against the plainest fast one with Horovod: see `horovod_loops.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
WANTED = 0.95


@pytest.mark.parametrize(("model", "source"), [("cnn", "digits"), ("gpt", "python-source")])
def test_the_loop_costs_next_to_nothing_under_horovod(model: str, source: str, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    env = os.environ | {"PYTHONPATH": str(ROOT / "components" / "_shared")}
    env |= {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
    command = [sys.executable, "shard.py", "--source", f"builtin:{source}", "--shards", str(shards)]
    code = ROOT / "components" / "shard_data" / "src"
    subprocess.run(command, cwd=code, env=env, check=True, timeout=100, capture_output=True)
    beside = shutil.which("mpirun", path=Path(sys.executable).parent)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    ranks = [beside or "mpirun", *root, "--oversubscribe", "-np", "2", sys.executable]
    ranks += [str(Path(__file__).with_name("horovod_loops.py")), model, str(shards)]
    done = subprocess.run(
        ranks, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr
    report = next(line for line in done.stdout.splitlines() if line.startswith(f"{model}:"))
    print(f"\n{report}")
    assert float(report.split()[-1]) >= WANTED
