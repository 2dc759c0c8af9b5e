"""Shipped pipelines, run as a user runs them: real data, real processes, a registered model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from shipped_runs import read_losses

pytestmark = [pytest.mark.run, pytest.mark.timeout(900)]


def test_a_script_that_knows_nothing_of_us(shipped: Callable[..., Any]) -> None:
    assert shipped("own_script").metrics["accuracy"] >= 0.95


def test_texts_end_as_a_fine_tuned_model_and_one_process_learns_the_same(shipped: Callable[..., Any]) -> None:
    pytest.importorskip("peft")
    run = shipped("finetune_text")
    assert "reviews-bert version 1" in run.output
    assert run.metrics["accuracy"] >= 0.9
    shipped("finetune_text", processes=1, steps=("prepare", "shard", "train"))
    two, one = read_losses(run.home)
    assert sorted(one) == sorted(two)
    for step in range(1, 16):
        assert two[step] == pytest.approx(one[step], rel=1e-4), f"step {step}"
