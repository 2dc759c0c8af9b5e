"""The digits under Horovod, run as a user runs them: real mpirun, real ranks, a registered model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.run, pytest.mark.horovod, pytest.mark.timeout(600)]


def test_digits_are_learned_over_mpi_and_registered(shipped: Callable[..., Any]) -> None:
    run = shipped("digits_horovod", train={"with": {"epochs": 8}})
    assert "planned for 8 processes (2 × 4), running 2 here with accumulation ×4" in run.output
    assert "digits-cnn version 1" in run.output
    assert run.metrics["accuracy"] >= 0.97
