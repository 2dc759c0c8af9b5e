"""Advice for people: the front as a table, why the cheapest is cheapest, what other batches would mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import to_builtins

from worldsize.base.wording import plural, quoted_list, show_number
from worldsize.cli.common import format_table
from worldsize.cli.quantities import show_interval, show_share
from worldsize.planning.advising.model import Advice, Option, OtherBatch, Subject
from worldsize.planning.advising.options import Comparison, compare
from worldsize.planning.estimates.model import Interval, Training

_HEADINGS = ("", "instances", "tier", "layout", "time", "cost", "efficiency", "bound by")
_TIERS = {"dedicated": "dedicated", "low_priority": "low priority"}
_TIMES = ((120.0, 1.0, "s"), (5400.0, 60.0, "min"), (259_200.0, 3600.0, "h"), (math.inf, 86400.0, "d"))
_CENT = 0.01
_VISIBLE = 0.005
_CALIBRATED = "calibrated by"  # a basis says so; the published speeds need not be named again
_BESIDE = {"runner_up": "the runner-up", "present": "the present configuration"}


def render_advice(subject: Subject, samples: float, advice: Advice, others: Sequence[OtherBatch]) -> str:
    """The block of one training."""
    length = f"{show_number(samples)} samples in global batches of {subject.case.global_batch}"
    lines = [
        f"{subject.name}  {length}; {advice.found.considered:,} layouts considered",
        "",
        *_list_options(advice),
        "",
        *_explain_cheapest(advice),
        *(_describe_batch(batch) for batch in others),
    ]
    lines += _list_unpriced(advice)
    prices = [option.price for option in advice.front if option.price is not None]
    if prices:
        days = sorted({price.as_of.isoformat() for price in prices})
        lines.append(f"prices: {prices[0].region}, {' to '.join(dict.fromkeys([days[0], days[-1]]))}")
    return "\n".join(lines)


def _list_unpriced(advice: Advice) -> Iterator[str]:
    """The sizes that are left out, by tier."""
    for tier, shown in _TIERS.items():
        names = sorted({each.instance_type for each in advice.found.unpriced if each.tier == tier})
        if names:
            yield f"left out, because the price is unknown, {shown}: {quoted_list(names, 6)}"


def _list_options(advice: Advice) -> Iterator[str]:
    """The front, the fastest first, and what the user has now."""
    rows = [_row(_mark(option, advice), option) for option in advice.front]
    if advice.present is not None and advice.present not in advice.front:
        rows.append(_row("present", advice.present))
    return format_table(_HEADINGS, rows, right=frozenset({6}))


def _mark(option: Option, advice: Advice) -> str:
    if option == advice.chosen:
        return "chosen"
    if option == advice.present:
        return "present"
    return "cheapest" if option == advice.cheapest else "fastest" if option == advice.front[0] else ""


def _row(mark: str, option: Option) -> tuple[str, ...]:
    efficiency = option.estimate.scaling_efficiency
    return (
        mark,
        show_instances(option),
        _TIERS[option.tier],
        describe_layout(option.training),
        show_hours(option.seconds),
        show_cost(option),
        "" if efficiency is None else show_share(efficiency),
        option.estimate.bound,
    )


def show_instances(option: Option) -> str:
    """``2 × Standard_ND96asr_v4``."""
    return f"{option.cluster.instance_count} × {option.instance_type}"


def summarise(option: Option) -> str:
    """``2 × Standard_ND96asr_v4, low priority: 12.1 h (10.5 to 13.9), 310 USD (280 to 350)``."""
    where = f"{show_instances(option)}, {_TIERS[option.tier]}"
    return f"{where}: {show_hours(option.seconds)}, {show_cost(option)}"


def describe_layout(training: Training) -> str:
    """``fsdp 3, tensor 2, 4 × 2 samples, full recomputation``: micro-batch × accumulation."""
    stage = f" {training.zero_stage}" if training.zero_stage else ""
    parts = [f"{training.strategy}{stage}"]
    if training.tensor_parallel > 1:
        parts.append(f"tensor {training.tensor_parallel}")
    if training.pipeline_parallel > 1:
        parts.append(f"pipeline {training.pipeline_parallel}")
    parts.append(f"{training.micro_batch} × {training.accumulation} samples")
    if training.recomputation != "none":
        parts.append(f"{training.recomputation} recomputation")
    return ", ".join(parts)


def show_hours(seconds: Interval) -> str:
    """``12.1 h (10.5 to 13.9)``, in seconds, minutes, hours or days."""
    size, unit = next((size, unit) for limit, size, unit in _TIMES if seconds.expected < limit)
    return show_interval(seconds, unit, size)


def show_cost(option: Option) -> str:
    """``310 USD (280 to 350)``."""
    if option.amount is None or option.price is None:
        return "unknown"
    if option.amount.expected < _CENT:
        return f"below {_CENT} {option.price.currency}"
    return show_interval(option.amount, option.price.currency)


def _explain_cheapest(advice: Advice) -> Iterator[str]:
    """Why the cheapest costs less than others, in factors that multiply to the whole."""
    cheapest = advice.cheapest
    if cheapest is None:
        return
    yield f"cheapest: {show_instances(cheapest)}, {_TIERS[cheapest.tier]}"
    if _CALIBRATED in cheapest.estimate.basis:
        yield f"  its time rests on: {cheapest.estimate.basis}"
    if cheapest.expected_loss:
        yield f"  evictions and checkpoints take {show_share(cheapest.expected_loss)} of its time"
    for name, comparison in compare_cheapest(advice).items():
        yield from _explain(_BESIDE[name], cheapest, comparison)


def _explain(name: str, cheapest: Option, comparison: Comparison) -> Iterator[str]:
    other = comparison.other
    used, theirs = cheapest.estimate.model_flops_utilisation, other.estimate.model_flops_utilisation
    mine, others = cheapest.estimate.bound, other.estimate.bound
    bounds = f"both bound by {mine}" if mine == others else f"bound by {mine} and {others}"
    yield (
        f"  {name}, {show_instances(other)}, {_TIERS[other.tier]},"
        f" costs {_times(comparison.cost)}as much and takes {_times(comparison.seconds)}as long;"
        " the cheapest has"
    )
    yield f"    {_times(comparison.peak_per_money, 'the same ')}peak arithmetic for the money"
    yield (
        f"    {_times(comparison.utilisation, 'the same ')}share of it in use:"
        f" {show_share(used or 0)} against {show_share(theirs or 0)}, {bounds}"
    )
    if abs(comparison.kept_time - 1) >= _VISIBLE:
        yield f"    {comparison.kept_time:.3g} times the share of time that evictions leave"


def _times(factor: float, same: str = "") -> str:
    """``2.5 times the ``, or what is said instead of ``1 times``; without ``same`` there is no article."""
    shown = f"{factor:.3g}"
    return same if shown == "1" else f"{shown} times {'the ' if same else ''}"


def _describe_batch(batch: OtherBatch) -> str:
    """What another global batch would mean."""
    text = f"a global batch of {batch.global_batch} (× {batch.factor}, not applied): "
    if batch.learning_rate is None:
        text += f"the learning rate × {batch.factor} for SGD or × √{batch.factor} for Adam"
    else:
        text += f"learning rate {show_number(batch.learning_rate)}"
        text += f", warm-up {plural(batch.warmup_epochs or 0, 'epoch')}"
    if batch.option is None:
        return f"{text}; no option within the limits"
    option = batch.option
    return f"{text}; from {show_cost(option)} in {show_hours(option.seconds)} on {show_instances(option)}"


FORMAT = "worldsize-advice/1"


def describe_advice(
    subject: Subject, samples: float, advice: Advice, others: Sequence[OtherBatch]
) -> dict[str, Any]:
    """The advice for one training."""
    return {
        "name": subject.name,
        "global_batch_size": subject.case.global_batch,
        "samples": samples,
        "considered": advice.found.considered,
        "timed": advice.found.timed,
        "front": [describe_option(option) for option in advice.front],
        "cheapest": _describe(advice.cheapest),
        "chosen": _describe(advice.chosen),
        "present": _describe(advice.present),
        "comparisons": _describe_comparisons(advice),
        "other_batches": [_batch_document(batch) for batch in others],
        "unpriced": sorted({option.instance_type for option in advice.found.unpriced}),
    }


def describe_option(option: Option) -> dict[str, Any]:
    """One cluster with its layout, time and money; None where a quantity is unknown."""
    training, answer = option.training, option.estimate
    return {
        "instance_type": option.instance_type,
        "instance_count": option.cluster.instance_count,
        "tier": option.tier,
        "strategy": training.strategy,
        "zero_stage": training.zero_stage,
        "tensor_parallel": training.tensor_parallel,
        "pipeline_parallel": training.pipeline_parallel,
        "micro_batch": training.micro_batch,
        "accumulation": training.accumulation,
        "recomputation": training.recomputation,
        "seconds": to_builtins(option.seconds),
        "cost": None if option.amount is None else to_builtins(option.amount),
        "price": None if option.price is None else to_builtins(option.price),
        "expected_loss": option.expected_loss,
        "samples_per_second": to_builtins(answer.samples_per_second),
        "model_flops_utilisation": answer.model_flops_utilisation,
        "scaling_efficiency": answer.scaling_efficiency,
        "bound": answer.bound,
        "basis": answer.basis,
        "memory_bytes": round(option.memory_bytes),
    }


def compare_cheapest(advice: Advice) -> dict[str, Comparison]:
    """The cheapest option beside the runner-up and what the user has now."""
    beside = {"runner_up": advice.runner_up, "present": advice.present}
    compared = {
        name: compare(advice.cheapest, other)
        for name, other in beside.items()
        if advice.cheapest is not None and other is not None and other != advice.cheapest
    }
    return {name: comparison for name, comparison in compared.items() if comparison is not None}


def _describe(option: Option | None) -> dict[str, Any] | None:
    return None if option is None else describe_option(option)


def _describe_comparisons(advice: Advice) -> dict[str, Any]:
    return {
        name: {
            "other": describe_option(comparison.other),
            "cost": comparison.cost,
            "seconds": comparison.seconds,
            "peak_per_money": comparison.peak_per_money,
            "utilisation": comparison.utilisation,
            "kept_time": comparison.kept_time,
        }
        for name, comparison in compare_cheapest(advice).items()
    }


def _batch_document(batch: OtherBatch) -> dict[str, Any]:
    return {
        "global_batch_size": batch.global_batch,
        "factor": batch.factor,
        "learning_rate": batch.learning_rate,
        "warmup_epochs": batch.warmup_epochs,
        "cheapest": _describe(batch.option),
    }
