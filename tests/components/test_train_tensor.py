"""Layers divided over ranks: the same training, and what is said when a model cannot be divided."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(400)]

from torch import nn  # noqa: E402

from wsshards.errors import UserError  # noqa: E402
from wstrain_ddp.tensor_parallel import read_plan  # noqa: E402

Training = Callable[..., Any]
SCRIPT = Path(__file__).with_name("split_ranks.py")


def test_four_ranks_follow_one_process_whichever_way_the_model_is_divided(
    warm: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Tensor, pipeline, both, with data parallelism and FSDP; each taking up what another saved."""
    process = subprocess.Popen(
        [*warm(), sys.executable, str(SCRIPT), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=340)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, err[-4000:]
    trials = (
        "every_way_follows_the_same_curve",
        "what_one_saved_any_other_takes_up",
        "half_precision_is_the_same_up_to_rounding",
        "a_model_that_remembers_its_heads_is_told_so",
    )
    assert [trial for trial in trials if trial not in out] == []  # torch 2.10 says more, of gloo


class Layers(nn.Module):
    def __init__(self, plan: object) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 12), nn.LayerNorm(12), nn.Linear(12, 8)
        self.plan = plan

    def tensor_parallel_plan(self) -> object:
        return self.plan


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"upp": "colwise"}, "`tensor_parallel_plan` names `upp`, but the model has no such layer"),
        ({"up": "columns"}, "`tensor_parallel_plan` divides `up` by `columns`"),
        ({"*": "colwise"}, "`tensor_parallel_plan` divides ``, which is a `Layers`"),
        ({"norm": "colwise"}, "`tensor_parallel_plan` divides `norm`, which is a `LayerNorm`"),
        ({"up": "rowwise"}, "layer `up` has 8 inputs, not a multiple of `tensor_parallel_size` 3"),
        (
            [("up", "colwise")],
            "`tensor_parallel_plan` returned [('up', 'colwise')], not a dictionary of layers",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_one_sentence(plan: object, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        read_plan(Layers(plan), 3)


@pytest.mark.smoke
def test_a_model_without_a_plan_is_told_how_to_name_one() -> None:
    with pytest.raises(UserError, match="the model has no method `tensor_parallel_plan`") as raised:
        read_plan(nn.Linear(2, 2), 2)
    assert "colwise" in str(raised.value.help)


def test_a_model_that_cannot_be_divided_stops_every_rank_before_it_trains(
    training: Training,
    built_in_shards: Callable[[str], Path],
    tmp_path: Path,
    snapshots: Callable[[str], Path],
) -> None:
    plan = {"batch_size_per_device": 8, "global_batch_size": 8, "learning_rate": 0.1, "epochs": 1}
    divided = {"strategy": "tensor_parallel", "tensor_parallel_size": 2, "model": "mlp"}
    run = training(2, shards=built_in_shards("digits"), **plan, **divided)
    for rank in run.ranks:
        assert rank.status == 2
        assert rank.stderr.startswith("error: model `mlp` cannot be divided, but `tensor_parallel_size` is 2")
    assert not (run.folder / "model").exists()
