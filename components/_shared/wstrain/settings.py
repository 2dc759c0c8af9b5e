"""The inputs of a training component, parsed from its command line, whose flags have the inputs' names."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from wsshards.errors import UserError
from wstrain import fine_tuning
from wstrain.class_weights import NONE, class_weights
from wstrain.input_types import boolean, integer, number
from wstrain.lr_schedule import DECAYS, Decay
from wstrain.plan_inputs import add_plan, complete_plan

OPTIMIZERS = ("sgd", "adam", "adamw", "lamb", "lars")
PRECISIONS = ("fp32", "bf16", "fp16")
AddOptions = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True, slots=True)
class OptimizerOptions:
    """Settings of an optimizer; it ignores those that it does not have."""

    name: str
    momentum: float = 0.9
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    rates: Mapping[str, float] = field(
        default_factory=dict, hash=False
    )  # factor of the learning rate, by parameter


@dataclass(frozen=True, slots=True)
class Settings:
    """One field for each input and output of the component; ``component.yml`` describes them."""

    shards: Path
    model: str
    epochs: float
    optimizer: str
    momentum: float
    weight_decay: float
    beta1: float
    beta2: float
    epsilon: float
    max_gradient_norm: float
    lr_schedule: Decay
    lr_decay_epochs: tuple[float, ...]
    lr_decay_factor: float
    lr_decay_fraction: float
    class_weights: str | Mapping[str, float]  # none, balanced, or the weight of some classes
    label_smoothing: float
    mixup_alpha: float
    ema_decay: float
    compile: bool | None  # None: where it pays
    precision: str
    seed: int
    strategy: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    activation_checkpointing: str
    sync_batch_norm: bool
    gpt_layers: int
    gpt_heads: int
    gpt_width: int
    loader_workers: int
    augmentation: str
    checkpoint_every_epochs: float
    checkpoint_every_steps: int
    checkpoint_interval: str
    mean_time_between_preemptions: float
    checkpoint_async: bool
    keep_checkpoints: int
    keep_best: bool
    validate_every_epochs: float
    validate_every_steps: int
    best_metric: str
    best_metric_goal: str
    early_stopping_patience: int
    early_stopping_min_delta: float
    export: str
    resume_from: Path | None
    stop_after_steps: int | None
    world_size: int
    batch_size_per_device: int
    gradient_accumulation_steps: int
    global_batch_size: int
    learning_rate: float
    reference_learning_rate: float | None
    reference_batch_size: int | None
    learning_rate_rule: str
    warmup_epochs: float
    predicted_memory_bytes: int | None
    planned_gpus_per_instance: float | None
    planned_instance_type: str | None
    predicted_samples_per_second: float | None
    predicted_samples_per_second_low: float | None
    predicted_samples_per_second_high: float | None
    predicted_cluster: str | None
    hang_timeout: float
    checkpoints: Path
    trained_model: Path
    initial_model: Path | None
    freeze: str
    layer_learning_rate_decay: float
    lora_rank: int
    lora_alpha: float
    lora_dropout: float
    lora_targets: str
    options: Mapping[str, Any]  # inputs that not every component has

    @property
    def optimizer_options(self) -> OptimizerOptions:
        """The settings of the optimizer."""
        return OptimizerOptions(
            self.optimizer, self.momentum, self.weight_decay, self.beta1, self.beta2, self.epsilon
        )


def parse_settings(
    arguments: Sequence[str],
    *,
    started: int,
    strategies: Iterable[str],
    options: Sequence[AddOptions] = (),
) -> Settings:
    """Read the command line of a training component.

    Args:
        arguments: the command line without the program's name.
        started: ranks or replicas that the launcher started, which a run without a plan has.
        strategies: the strategies this component offers.
        options: functions that add inputs which not every training component has.

    Raises:
        UserError: a flag is missing or unknown, or a value is not of its type or outside its range.
    """
    parser = _Parser(
        prog="train.py",
        description="Train a model on shards.",
        allow_abbrev=False,
        conflict_handler="resolve",  # a component may offer more of an input
    )
    _add_model(parser, strategies)
    _add_optimizer(parser)
    _add_checkpoints(parser)
    _add_validation(parser)
    add_plan(parser)
    parser.set_defaults(tensor_parallel_size=1, pipeline_parallel_size=1, activation_checkpointing="none")
    parser.set_defaults(**fine_tuning.DEFAULTS)
    parser.set_defaults(ema_decay=0.0, compile=False)
    for add in options:
        add(parser)
    values = vars(parser.parse_args(arguments))
    complete_plan(values, started)
    common = {field.name for field in fields(Settings)} - {"options"}
    others = {name: value for name, value in values.items() if name not in common}
    return Settings(**{name: values[name] for name in common}, options=others)


def add_model_parallel(parser: argparse.ArgumentParser) -> None:
    """Add the degrees of model parallelism."""
    parser.add_argument("--tensor_parallel_size", type=integer(1), default=1)
    parser.add_argument("--pipeline_parallel_size", type=integer(1), default=1)


def add_pipeline_schedule(parser: argparse.ArgumentParser) -> None:
    """Add the schedule of pipeline stages."""
    parser.add_argument("--pipeline_schedule", choices=("gpipe", "1f1b"), default="gpipe")


def add_activation_checkpointing(parser: argparse.ArgumentParser) -> None:
    """Add activation checkpointing."""
    parser.add_argument("--activation_checkpointing", choices=("none", "blocks"), default="none")


def add_weight_average(parser: argparse.ArgumentParser) -> None:
    """Add the moving average of the weights."""
    parser.add_argument("--ema_decay", type=number(0, below=1), default=0.0)


def add_compile(parser: argparse.ArgumentParser) -> None:
    """Add the compilation of the model."""
    parser.add_argument("--compile", type=boolean, default=None)


def add_automatic_precision(parser: argparse.ArgumentParser) -> None:
    """Let the device choose the precision, unless one is given."""
    parser.add_argument("--precision", choices=("auto", *PRECISIONS), default="auto")


def add_sharding(parser: argparse.ArgumentParser) -> None:
    """Add the inputs of the strategy ``fsdp``."""
    parser.add_argument("--fsdp_reshard", choices=("auto", "always", "never"), default="auto")
    parser.add_argument("--fsdp_reduce", choices=("step", "micro_batch"), default="step")
    parser.add_argument("--fsdp_cpu_offload", type=boolean, default=False)


def _add_model(parser: argparse.ArgumentParser, strategies: Iterable[str]) -> None:
    add = parser.add_argument
    add("--shards", type=Path, required=True)
    add("--model", default="cnn")
    add("--epochs", type=number(0, above=True), default=12.0)
    add("--precision", choices=PRECISIONS, default=PRECISIONS[0])
    add("--seed", type=integer(0), default=0)
    names = tuple(strategies)
    add("--strategy", choices=names, default=names[0])
    add("--sync_batch_norm", type=boolean, default=False)
    add("--gpt_layers", type=integer(1), default=4)
    add("--gpt_heads", type=integer(1), default=4)
    add("--gpt_width", type=integer(1), default=128)
    add("--loader_workers", type=integer(0, 16), default=1)
    add("--augmentation", choices=("none", "light", "standard"), default="none")


def _add_optimizer(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--optimizer", choices=OPTIMIZERS, default="sgd")
    add("--momentum", type=number(0, below=1), default=0.9)
    add("--weight_decay", type=number(0), default=0.0)
    add("--beta1", type=number(0, below=1), default=0.9)
    add("--beta2", type=number(0, below=1), default=0.999)
    add("--epsilon", type=number(0, above=True), default=1e-8)
    add("--max_gradient_norm", type=number(0), default=0.0)
    add("--lr_schedule", choices=DECAYS, default="cosine")
    add("--lr_decay_epochs", type=_milestones, default=(30.0, 60.0, 80.0))
    add("--lr_decay_factor", type=number(0, above=True, below=1), default=0.1)
    add("--lr_decay_fraction", type=number(0, above=True, below=1), default=0.2)
    add("--class_weights", type=class_weights, default=NONE)
    add("--label_smoothing", type=number(0, below=1), default=0.0)
    add("--mixup_alpha", type=number(0), default=0.0)


def _add_checkpoints(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint_every_epochs", type=number(0), default=1.0)
    add("--checkpoint_every_steps", type=integer(0), default=0)
    add("--checkpoint_interval", choices=("fixed", "auto"), default="fixed")
    add("--mean_time_between_preemptions", type=number(0, above=True), default=36000.0)
    add("--checkpoint_async", type=boolean, default=True)
    add("--keep_checkpoints", type=integer(1), default=2)
    add("--keep_best", type=boolean, default=False)
    add("--resume_from", type=Path)
    add("--stop_after_steps", type=integer(1))
    add("--checkpoints", type=Path, required=True)
    add("--trained_model", type=Path, required=True)


def _add_validation(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--validate_every_epochs", type=number(0), default=1.0)
    add("--validate_every_steps", type=integer(0), default=0)
    add("--best_metric", default="loss")
    add("--best_metric_goal", choices=("auto", "minimize", "maximize"), default="auto")
    add("--early_stopping_patience", type=integer(0), default=0)
    add("--early_stopping_min_delta", type=number(0), default=0.0)
    add("--export", choices=("best", "last"), default="best")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(
            message.replace("argument --", "input "), "component.yml lists the inputs and their ranges"
        )


def _milestones(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a list of epochs such as 30,60,80") from None
    if not all(earlier < later for earlier, later in zip((0.0, *values), values, strict=False)):
        raise argparse.ArgumentTypeError(f"`{text}` must rise from above 0")
    return values
