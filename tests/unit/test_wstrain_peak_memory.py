from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from wstrain.health import memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands a peak down")
def test_the_peak_of_a_process_is_its_own_and_not_its_starter_s() -> None:
    large = bytearray(300 * 2**20)
    code = "from wstrain.health import memory; print(memory.peak_bytes())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert memory.peak_bytes() > len(large)
    assert int(child.stdout) < 100 * 2**20


def test_the_prediction_stands_beside_what_was_measured() -> None:
    found = memory.memory_metrics("cpu", predicted=10**12, gather=lambda own: [own, 2 * 10**12])
    assert found["memory_peak_bytes"] == 2e12
    assert found["memory_peak_over_predicted"] == 2.0
    assert set(memory.memory_metrics("cpu")) == {"memory_peak_bytes"}


def test_on_a_gpu_the_context_counts_as_it_does_in_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of torch, as tests run without a GPU: 10 GB of tensors, 2 GB cached, 1.3 GB beside."""
    cuda = SimpleNamespace(
        max_memory_allocated=lambda: 10 * 10**9,
        memory_reserved=lambda: 12 * 10**9,
        mem_get_info=lambda: (80 * 10**9 - 13_300_000_000, 80 * 10**9),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    found = memory.memory_metrics("cuda", predicted=11_300_000_000)
    assert found["memory_peak_bytes"] == 11_300_000_000
    assert found["memory_peak_over_predicted"] == 1.0
