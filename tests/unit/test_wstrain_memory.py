from __future__ import annotations

import subprocess
import sys

import pytest

from wstrain import memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands a peak down")
def test_the_peak_of_a_process_is_its_own_and_not_its_starter_s() -> None:
    large = bytearray(300 * 2**20)
    code = "from wstrain import memory; print(memory.peak_bytes())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert memory.peak_bytes() > len(large)
    assert int(child.stdout) < 100 * 2**20


def test_the_prediction_stands_beside_what_was_measured() -> None:
    found = memory.report("cpu", predicted=10**9, everyone=lambda own: [own, 2 * 10**9])
    assert found["memory_peak_bytes"] == 2e9
    assert found["memory_peak_over_predicted"] == 2.0
    assert set(memory.report("cpu")) == {"memory_peak_bytes"}
