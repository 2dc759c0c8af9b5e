"""The TensorFlow pipelines that are shipped, run as a user runs them, down to a registered model."""

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


@pytest.mark.parametrize(
    ("name", "epochs", "accuracy", "tasks"),
    [
        ("digits_tensorflow", 8, 0.97, {"worker-0", "worker-1"}),
        ("digits_parameter_server", 6, 0.95, {"worker-0", "worker-1", "ps-0"}),
    ],
)
def test_digits_end_as_a_registered_model(
    shipped: Callable[..., Any], name: str, epochs: int, accuracy: float, tasks: set[str]
) -> None:
    run = shipped(name, train={"with": {"epochs": epochs}})
    assert "digits-cnn version 1" in run.output
    assert {path.stem for path in (run.newest / "steps" / "train" / "logs").glob("*.log")} >= tasks
    assert run.metrics["accuracy"] >= accuracy
