"""The loss scaler of half precision under sharding, which CPUs can try though they have no fp16."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ports import find_free_port

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(200)]


def test_an_overflow_on_one_rank_skips_the_step_of_all(
    warm: Callable[..., list[str]], tmp_path: Path
) -> None:
    port = find_free_port()
    script = Path(__file__).with_name("scaled_ranks.py")
    done = subprocess.run(
        [*warm(), sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = sorted(tmp_path.iterdir())
    assert len(results) == 4
    for path in results:
        whole, sharded = torch.load(path)
        # Two steps, doubled; one step and an overflow, halved; two steps, doubled.
        assert sharded["scaler"] == whole["scaler"]
        assert sharded["scaler"]["scale"] == 2048.0
        for name, weights in whole["weights"].items():
            assert torch.allclose(sharded["weights"][name], weights, atol=1e-5), (path.name, name)
            assert weights.isfinite().all(), (path.name, name)
