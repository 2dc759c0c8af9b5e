"""Strategies against degrees, and where blocks are cut into stages: decided before torch is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsshards.errors import UserError
from wstrain.launch.mesh import partition_blocks
from wstrain.settings import Settings, add_model_parallel, add_pipeline_schedule, parse_settings
from wstrain_torch.launch.start import expect_parallelism

STRATEGIES = ("ddp", "fsdp", "tensor_parallel", "pipeline_parallel")
PLAN = {"world_size": 4, "batch_size_per_device": 2, "gradient_accumulation_steps": 1, "global_batch_size": 8}


def settings(**values: Any) -> Settings:
    given = {"shards": "s", "checkpoints": "c", "trained_model": "m", "model": "gpt", **PLAN, **values}
    arguments = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    return parse_settings(
        arguments, started=4, strategies=STRATEGIES, options=(add_model_parallel, add_pipeline_schedule)
    )


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"strategy": "fsdp", "tensor_parallel_size": 2},
        {"strategy": "tensor_parallel", "tensor_parallel_size": 4},
        {"strategy": "pipeline_parallel", "pipeline_parallel_size": 2, "tensor_parallel_size": 2},
        {
            "strategy": "pipeline_parallel",
            "pipeline_parallel_size": 4,
            "pipeline_schedule": "1f1b",
            "gradient_accumulation_steps": 4,
        },
        {"strategy": "tensor_parallel", "tensor_parallel_size": 2, "model": "own/net.py:build"},
        {"strategy": "tensor_parallel", "world_size": 1, "model": "cnn"},  # a rehearsal in one process
    ],
)
def test_what_fits_passes(values: dict[str, Any]) -> None:
    expect_parallelism(settings(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"tensor_parallel_size": 2},
            "`tensor_parallel_size` is 2, but strategy `ddp` cannot divide a model so",
        ),
        (
            {"strategy": "fsdp", "pipeline_parallel_size": 2},
            "`pipeline_parallel_size` is 2, but strategy `fsdp` cannot divide a model so",
        ),
        (
            {"strategy": "tensor_parallel"},
            "strategy `tensor_parallel` has nothing to divide over: `tensor_parallel_size` is 1",
        ),
        (
            {"strategy": "pipeline_parallel", "tensor_parallel_size": 2},
            "strategy `pipeline_parallel` has nothing to divide over: `pipeline_parallel_size` is 1",
        ),
        (
            {"strategy": "tensor_parallel", "tensor_parallel_size": 4, "gpt_heads": 6},
            "`gpt_heads` is 6, not a multiple of `tensor_parallel_size` 4",
        ),
        (
            {"strategy": "pipeline_parallel", "pipeline_parallel_size": 4, "gpt_layers": 3},
            "`gpt_layers` is 3, fewer than `pipeline_parallel_size` 4",
        ),
        (
            {"strategy": "pipeline_parallel", "pipeline_parallel_size": 4, "pipeline_schedule": "1f1b"},
            "`1f1b` needs a micro-batch for each of 4 stages, but `gradient_accumulation_steps` is 1",
        ),
        (
            {"strategy": "fsdp", "tensor_parallel_size": 2, "model": "cnn"},
            "model `cnn` cannot be divided, but `tensor_parallel_size` is 2",
        ),
        (
            {"strategy": "pipeline_parallel", "pipeline_parallel_size": 2, "sync_batch_norm": True},
            "`sync_batch_norm` is on, but with `pipeline_parallel` no layer is on all ranks",
        ),
        (
            {"strategy": "tensor_parallel", "tensor_parallel_size": 2, "precision": "fp16"},
            "precision `fp16` is not offered for a model that is divided over ranks",
        ),
    ],
)
def test_a_contradiction_is_one_sentence(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        expect_parallelism(settings(**values))
    assert len(raised.value.message) <= 200
    assert raised.value.help


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 5))
def test_the_dearest_stage_is_as_cheap_as_can_be(costs: list[int], stages: int) -> None:
    found = partition_blocks(costs, stages)
    possible = [dearest for dearest in _every_cut(costs, stages) if dearest is not None]
    if not possible:
        assert found == []
        return
    assert [number for stage in found for number in stage] == list(range(len(costs)))
    assert len(found) == stages
    assert max(sum(costs[number] for number in stage) for stage in found) == min(possible)


def _every_cut(costs: list[int], stages: int) -> Iterator[int | None]:
    for places in combinations(range(1, len(costs)), stages - 1):
        ends = (0, *places, len(costs))
        sums = [sum(costs[begin:end]) for begin, end in pairwise(ends)]
        yield max(sums) if all(sums) else None


def test_blocks_of_one_size_are_shared_out_evenly() -> None:
    embedding, block, head = 32, 198, 33
    costs = [embedding, *[block] * 8, 1, head]
    assert [len(stage) for stage in partition_blocks(costs, 4)] == [3, 2, 2, 4]
