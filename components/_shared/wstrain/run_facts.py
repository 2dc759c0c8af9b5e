"""What follows from inputs and shards: steps, MLflow parameters, schedule, identity, save policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wsshards.errors import UserError
from wsshards.manifest import Manifest
from wsshards.provenance import describe_data
from wstrain.checkpoint.save_policy import SavePolicy
from wstrain.class_weights import NONE, describe_weights
from wstrain.data import step_counts
from wstrain.fine_tuning import DEFAULTS
from wstrain.lr_schedule import LearningRateSchedule
from wstrain.settings import Settings


def count_steps(settings: Settings, manifest: Manifest) -> dict[str, int]:
    """Count optimizer steps: ``steps_per_epoch``, ``total_steps``, ``warmup_steps``.

    Raises:
        UserError: there is not a single step.
    """
    rows, batch = manifest.train.rows, settings.global_batch_size
    per_epoch = step_counts.steps_per_epoch(rows, batch)
    if per_epoch == 0:
        raise UserError(
            f"the shards have {rows} training rows, fewer than one global batch of {batch}",
            "lower `global_batch_size`, or shard more rows",
        )
    total = step_counts.total_steps(settings.epochs, per_epoch)
    if total == 0:
        raise UserError(f"`epochs` is {settings.epochs:g}, less than one step of {per_epoch} an epoch")
    warmup = min(step_counts.warmup_steps(settings.warmup_epochs, per_epoch), total)
    return {"steps_per_epoch": per_epoch, "total_steps": total, "warmup_steps": warmup}


def collect_facts(settings: Settings, manifest: Manifest, steps: Mapping[str, int]) -> dict[str, Any]:
    """Return the parameters of the MLflow run: inputs without paths, steps, and facts about the data."""
    inputs = asdict(settings)
    inputs |= inputs.pop("options")
    facts = {
        name: value for name, value in inputs.items() if value is not None and not isinstance(value, Path)
    }
    facts["class_weights"] = describe_weights(settings.class_weights)
    facts["lr_decay_epochs"] = ",".join(f"{epoch:g}" for epoch in settings.lr_decay_epochs)
    return {**facts, **steps, "task": manifest.task, "source": manifest.source, "rows": manifest.train.rows}


def model_facts(facts: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Return those of the facts that a model carries as metadata, and its data."""
    local = ("gpt_", "loader_", "checkpoint", "keep_", "mean_time_", "beta", "lr_decay_", "stop_", "lora_")
    kept = {name: value for name, value in facts.items() if not name.startswith((*local, "predicted_"))}
    return {**kept, "data": describe_data(manifest)}


def make_schedule(settings: Settings, steps: Mapping[str, int]) -> LearningRateSchedule:
    """Return the learning rate of every step."""
    return LearningRateSchedule(
        reference_rate=settings.reference_learning_rate or settings.learning_rate,
        peak_rate=settings.learning_rate,
        warmup_steps=steps["warmup_steps"],
        total_steps=steps["total_steps"],
        decay=settings.lr_schedule,
        milestones=[round(epoch * steps["steps_per_epoch"]) for epoch in settings.lr_decay_epochs],
        factor=settings.lr_decay_factor,
        decay_fraction=settings.lr_decay_fraction,
    )


def training_identity(settings: Settings, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be the same to resume from a checkpoint; learning rate and length may change."""
    same = ("model", "task", "source", "rows", "seed", "global_batch_size", "optimizer")
    sizes = ("gpt_layers", "gpt_heads", "gpt_width") if settings.model == "gpt" else ()
    # What is trained, and by which factor of the rate, has its place in the state of the optimizer. The value
    # is None for the default, as in checkpoints of versions that had no such input; so are the weights.
    trained = {
        name: None if facts[name] == DEFAULTS[name] else facts[name]
        for name in ("freeze", "layer_learning_rate_decay", "lora_rank", "lora_alpha", "lora_targets")
    }
    weights = None if facts["class_weights"] == NONE else facts["class_weights"]
    return {name: facts[name] for name in (*same, *sizes)} | trained | {"class_weights": weights}


def make_save_policy(settings: Settings, steps: Mapping[str, int]) -> SavePolicy:
    """Return when checkpoints are written: at the best interval, or at the given ones."""
    if settings.checkpoint_interval == "auto":
        return SavePolicy((), settings.mean_time_between_preemptions)
    by_epochs = round(settings.checkpoint_every_epochs * steps["steps_per_epoch"])
    return SavePolicy([interval for interval in (by_epochs, settings.checkpoint_every_steps) if interval > 0])
