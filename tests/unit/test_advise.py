"""The search for the fastest and cheapest clusters: laws that hold for any training, deadline and choice."""

from __future__ import annotations

import math
import time
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from worldsize.facts.prices import Price, Tier, find_price
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.advising import layouts
from worldsize.planning.advising.model import DEEPSPEED, TORCH, Choice, Limits, Option, Question, Rate
from worldsize.planning.advising.options import compare, make_option
from worldsize.planning.advising.search import (
    advise,
    list_counts,
    list_known_sizes,
    list_sizes,
    make_cluster,
    search,
    try_other_batches,
)
from worldsize.planning.estimates.constants import fitted
from worldsize.planning.estimates.model import Case, Training
from worldsize.planning.estimates.step_time import time_step
from worldsize.spec.workload import Convolutional, Transformer

MPT_7B = Transformer(6.65e9, 32, 4096, 32, 50368, 2048)
GPT_2 = Transformer(1.24e8, 12, 768, 12, 50257, 1024)
RESNET_50 = Convolutional(25.6e6, 8.2e9, 89.7e6)
SIZES = list_sizes()
TIERS: tuple[Tier, ...] = ("dedicated", "low_priority")


def price_by_name(size: str, tier: Tier) -> Price:
    """A price of every size, which differs from one to the next; low priority is a fifth of it."""
    amount = (1 + sum(size.encode()) % 37) * (0.2 if tier == "low_priority" else 1.0)
    return Price(amount, "USD", "eastus", tier, date(2026, 11, 1), "test")


def ask(
    workload: Transformer | Convolutional = MPT_7B,
    global_batch: int = 256,
    sizes: list[VmSize] | None = None,
    most: int = 4,
    training: Training | None = None,
) -> Question:
    return Question(
        workload=workload,
        training=training or Training(1, precision="fp16"),
        global_batch=global_batch,
        samples=1e6,
        choice=Choice(tuple(SIZES if sizes is None else sizes), most, TIERS),
        find_price=price_by_name,
        checkpoint_seconds=30.0,
    )


questions = st.builds(
    ask,
    st.sampled_from([MPT_7B, GPT_2, RESNET_50]),
    st.sampled_from([48, 64, 100, 256]),
    st.lists(st.sampled_from(SIZES), min_size=1, max_size=4, unique_by=lambda size: size.name),
    st.integers(1, 6),
)


def is_better(one: Option, other: Option) -> bool:
    assert one.amount is not None
    assert other.amount is not None
    mine = (one.seconds.expected, one.amount.expected)
    theirs = (other.seconds.expected, other.amount.expected)
    return all(a <= b for a, b in zip(mine, theirs, strict=True)) and mine != theirs


@settings(deadline=None, max_examples=15)
@given(questions)
def test_no_option_is_better_than_one_of_the_front(question: Question) -> None:
    advice = advise(question, Limits())
    for kept in advice.front:
        assert not any(is_better(option, kept) for option in advice.found.options)
    assert bool(advice.front) == bool(advice.found.options)


@settings(deadline=None, max_examples=40)
@given(questions)
def test_every_option_keeps_the_global_batch_and_fits(question: Question) -> None:
    for option in search(question).options:
        case = Case(question.workload, option.training, option.cluster)
        assert case.global_batch == question.global_batch
        assert layouts.has_room(question, case)
        assert option.training.tensor_parallel <= option.cluster.gpus_per_instance


@settings(deadline=None, max_examples=30)
@given(questions, st.floats(0.01, 1.0))
def test_a_tighter_deadline_is_never_cheaper(question: Question, share: float) -> None:
    free = advise(question, Limits()).cheapest
    if free is None:
        return
    tight = advise(question, Limits(seconds=free.seconds.expected * share)).cheapest
    if tight is not None:
        assert tight.amount is not None
        assert free.amount is not None
        assert tight.amount.expected >= free.amount.expected


@settings(deadline=None, max_examples=30)
@given(questions, st.sampled_from(SIZES))
def test_more_sizes_are_never_worse(question: Question, further: VmSize) -> None:
    few = advise(question, Limits())
    sizes = tuple(dict.fromkeys((*question.choice.sizes, further)))
    many = advise(replace(question, choice=replace(question.choice, sizes=sizes)), Limits())
    for option in few.front:
        assert any(other == option or is_better(other, option) for other in many.front)


@pytest.mark.parametrize("workload", [GPT_2, RESNET_50])
@pytest.mark.parametrize("size", ["Standard_ND96asr_v4", "Standard_NC4as_T4_v3"])
def test_bounds_exclude_no_faster_layout(workload: Transformer | Convolutional, size: str) -> None:
    """Every division of the batch in the whole space, timed without any bound."""
    question = ask(workload, 96)
    chosen = next(each for each in SIZES if each.name == size)
    cluster = make_cluster(chosen, 3)
    assert cluster is not None
    found = layouts.find_fastest(question, cluster, fitted(), layouts.Tally())
    assert found is not None
    fastest = math.inf
    degrees = (
        [(1, 1)] if isinstance(workload, Convolutional) else [(t, p) for t in (1, 2, 4) for p in (1, 2, 3)]
    )
    for strategy, stage in (*TORCH, *DEEPSPEED):
        for tensor, pipeline in degrees:
            replicas, rest = divmod(cluster.world_size, tensor * pipeline)
            if (
                rest
                or cluster.gpus_per_instance % tensor
                or (strategy == "deepspeed" and stage > 1 < pipeline)
            ):
                continue
            for micro_batch in range(1, 97):
                if 96 % (micro_batch * replicas):
                    continue
                training = replace(
                    question.training,
                    micro_batch=micro_batch,
                    accumulation=96 // (micro_batch * replicas),
                    strategy=strategy,
                    zero_stage=stage,
                    tensor_parallel=tensor,
                    pipeline_parallel=pipeline,
                )
                case = Case(workload, training, cluster)
                parts = time_step(case, fitted(), question.calibration)
                if parts is not None and layouts.has_room(question, case):
                    fastest = min(fastest, parts.seconds)
    assert found.seconds <= fastest / (1 - layouts.NOTICEABLE)


def test_factors_of_a_comparison_multiply_to_the_costs() -> None:
    options = search(ask()).options
    first = options[0]
    for other in options[1:]:
        comparison = compare(first, other)
        assert comparison is not None
        product = comparison.peak_per_money * comparison.utilisation * comparison.kept_time
        assert product == pytest.approx(comparison.cost, rel=1e-9)


def test_a_budget_alone_asks_for_the_fastest_and_a_deadline_for_the_cheapest() -> None:
    free = advise(ask(), Limits())
    assert free.chosen is None
    assert free.cheapest is not None
    assert free.cheapest.amount is not None
    fast = advise(ask(), Limits(amount=2 * free.cheapest.amount.expected))
    assert fast.chosen == fast.front[0] != fast.cheapest
    slow = advise(ask(), Limits(seconds=2 * free.front[0].seconds.expected))
    assert slow.chosen == slow.cheapest == slow.front[-1]


def test_a_workload_that_fits_nowhere_says_the_smallest_need() -> None:
    sizes = [size for size in SIZES if size.name == "Standard_NC4as_T4_v3"]
    found = search(ask(MPT_7B, 64, sizes, 1))
    assert not found.options
    assert found.shortage is not None
    assert found.shortage.needed_bytes > found.shortage.cluster.gpu.memory_bytes


def test_a_size_without_the_precision_is_left_out() -> None:
    sizes = [size for size in SIZES if size.name == "Standard_NC4as_T4_v3"]
    found = search(ask(GPT_2, 64, sizes, training=Training(1, precision="bf16")))
    assert (found.options, found.precise) == ((), False)


def test_unknown_activations_keep_the_micro_batch() -> None:
    workload = replace(RESNET_50, activation_bytes=None)
    for option in search(ask(workload, 256, training=Training(4, precision="fp16"))).options:
        assert option.training.micro_batch <= 4


def test_another_batch_scales_the_rate_by_its_rule() -> None:
    others = try_other_batches(ask(), Rate("linear", 64, 0.1, 90), Limits())
    assert [(each.global_batch, each.learning_rate) for each in others] == [(512, 0.8), (1024, 1.6)]
    assert all(each.warmup_epochs == 5 for each in others)
    assert all(each.learning_rate is None for each in try_other_batches(ask(), None, Limits()))


def test_low_priority_without_checkpoints_takes_longer() -> None:
    question = ask(GPT_2)
    cluster = make_cluster(SIZES[0], 1)
    assert cluster is not None
    training = Training(1, 256, "fp16")
    saved = make_option(question, cluster, training, "low_priority")
    lost = make_option(
        replace(question, checkpoint_seconds=None, samples=1e4), cluster, training, "low_priority"
    )
    whole = make_option(replace(question, samples=1e4), cluster, training, "dedicated")
    assert saved is not None
    assert lost is not None
    assert whole is not None
    assert saved.expected_loss > 0
    assert lost.seconds.expected > whole.seconds.expected


@pytest.mark.parametrize("most", [1, 2, 5, 16])
def test_counts_of_instances_end_with_the_largest(most: int) -> None:
    counts = list_counts(most)
    assert counts == sorted(set(counts))
    assert (counts[0], counts[-1]) == (1, most)


def test_sizes_on_sale_run_common_images() -> None:
    assert not any("MI300X" in size.name or "GB200" in size.name for size in SIZES)
    assert any("MI300X" in size.name for size in list_known_sizes())


def test_thousands_of_layouts_take_less_than_a_second() -> None:
    question = ask(most=16, training=Training(1, precision="bf16"))
    question = replace(question, find_price=lambda size, tier: find_price(size, "westeurope", tier))
    search(question)
    start = time.process_time()
    found = search(question)
    assert time.process_time() - start < 1.0
    assert found.considered > 20_000
