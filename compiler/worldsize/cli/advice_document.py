"""Advice as JSON, as ``schemas/advice.schema.json`` describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from worldsize.planning.advising.comparison import Comparison, compare
from worldsize.planning.advising.model import Advice, Option, OtherBatch, Subject

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
        "other_batches": [_describe_batch(batch) for batch in others],
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


def _describe_batch(batch: OtherBatch) -> dict[str, Any]:
    return {
        "global_batch_size": batch.global_batch,
        "factor": batch.factor,
        "learning_rate": batch.learning_rate,
        "warmup_epochs": batch.warmup_epochs,
        "cheapest": _describe(batch.option),
    }
