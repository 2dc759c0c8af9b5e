"""The shipped pipeline with a parameter server, run as a user runs it, down to a registered model.

Mirrored workers are in ``tests/components/test_shipped_data.py``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

HERE = importlib.util.find_spec("tensorflow")  # importing it takes seconds
pytestmark = [
    pytest.mark.skipif(HERE is None, reason="TensorFlow is not installed"),
    pytest.mark.run,
    pytest.mark.timeout(600),
]


@pytest.mark.smoke
def test_digits_end_as_a_registered_model(shipped: Callable[..., Any]) -> None:
    run = shipped("digits_parameter_server", train={"with": {"epochs": 6}})
    assert "digits-cnn version 1" in run.output
    tasks = {path.stem for path in (run.newest / "steps" / "train" / "logs").glob("*.log")}
    assert tasks >= {"worker-0", "worker-1", "ps-0"}
    assert run.metrics["accuracy"] >= 0.95
