"""The component end to end with a divided model: trained, stopped, resumed another way, and served."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore:The given buffer is not writable"),  # torch 2.10, of what it loads
]

from torch import nn  # noqa: E402

from wsshards.errors import UserError  # noqa: E402
from wstrain_ddp.pipeline_stage import partition_model  # noqa: E402

Training = Callable[..., Any]
# 6 steps of 16 rows, in micro-batches of 4 rows.
GPT = {
    "model": "gpt",
    "gpt_layers": 2,
    "gpt_heads": 2,
    "gpt_width": 32,
    "epochs": 0.0038,
    "global_batch_size": 16,
}
GPT |= {"batch_size_per_device": 4, "gradient_accumulation_steps": 4, "learning_rate": 0.003}
GPT |= {"optimizer": "adamw", "weight_decay": 0.1, "max_gradient_norm": 0.5, "timeout": 200}
TENSOR = {"strategy": "tensor_parallel", "tensor_parallel_size": 2}
PIPELINE = {"strategy": "pipeline_parallel", "pipeline_parallel_size": 2, "pipeline_schedule": "1f1b"}


@pytest.fixture(scope="module")
def text(built_in_shards: Callable[[str], Path]) -> Path:
    return built_in_shards("python-source")


@pytest.mark.smoke
def test_stopped_as_tensor_parallel_resumed_as_a_pipeline_and_served(
    training: Training, text: Path, serve: Callable[..., dict[str, Any]]
) -> None:
    alone = training(1, shards=text, **GPT)
    assert alone.ok, alone.errors
    assert sorted(alone.losses) == [1, 2, 3, 4, 5, 6]

    stopped = training(2, shards=text, stop_after_steps=3, **GPT, **TENSOR)
    assert stopped.ok, stopped.errors
    resumed = training(2, shards=text, resume_from=stopped.folder / "checkpoints", **GPT, **PIPELINE)
    assert resumed.ok, resumed.errors
    assert "resuming from checkpoint step-00000003" in resumed.ranks[0].stdout
    assert stopped.losses | resumed.losses == pytest.approx(alone.losses, rel=1e-3)
    assert sorted(resumed.losses) == [4, 5, 6]

    divided = serve(resumed.folder / "model", text)
    assert divided["alone"] == [1, 5, 256]
    assert divided["bits"] < 8
    assert divided["metadata"]["pipeline_parallel_size"] == 2
    assert divided["metadata"]["final"]["loss"] == pytest.approx(alone.losses[6], rel=1e-3)
    rows = torch.arange(3 * 40, dtype=torch.uint8).view(3, 40)
    whole, gathered = (exported(run.folder / "model")(rows) for run in (alone, resumed))
    assert torch.allclose(whole, gathered, atol=1e-4)


def exported(model: Path) -> Callable[[Any], Any]:
    (program,) = model.rglob("program.pt2")
    module: Callable[[Any], Any] = torch.export.load(program).module()
    return module


class Blocks(nn.Module):
    def __init__(self, *names: str, tied: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.gain = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        if tied:
            self.second.weight = self.first.weight
        self.names = names

    def pipeline_blocks(self) -> tuple[str, ...]:
        return self.names


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("model", "stages", "message"),
    [
        (nn.Linear(4, 4), 2, "the model has no method `pipeline_blocks`, so it cannot be cut into stages"),
        (Blocks("first", "last"), 2, "`pipeline_blocks` names `last`, but the model has no such part"),
        (Blocks("first", "second"), 2, "`gain.weight` of the model is in none of the blocks"),
        (
            Blocks("first", "second", "gain"),
            4,
            "the model has 3 blocks with weights to train, but `pipeline_parallel_size` is 4",
        ),
        (
            Blocks("first", "gain", "second", tied=True),
            2,
            "`second.weight` is shared by blocks of two stages, where it would drift apart",
        ),
    ],
)
def test_a_model_that_cannot_be_cut_is_one_sentence(model: nn.Module, stages: int, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        partition_model(model, stages)


@pytest.mark.smoke
def test_a_sequence_is_cut_where_its_stages_weigh_alike() -> None:
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8), nn.GELU(), nn.Linear(8, 2)
    )
    assert partition_model(model, 2) == [["0", "1"], ["2", "3", "4", "5"]]
