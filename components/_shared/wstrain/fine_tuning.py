"""The inputs of fine-tuning: initial weights, frozen parameters, rates by layer, and LoRA."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from wsshards.errors import UserError
from wstrain.input_types import integer, number

if TYPE_CHECKING:
    from wstrain.settings import Settings

HUGGING_FACE = "hf:"  # what the `model` of a Hugging Face folder begins with
# The strategies that can train a model whose layers they know nothing of.
_ANY_MODEL = ("ddp", "fsdp", "deepspeed", "horovod")

DEFAULTS: Mapping[str, Any] = {
    "initial_model": None,
    "freeze": "",
    "layer_learning_rate_decay": 1.0,
    "lora_rank": 0,
    "lora_alpha": 16.0,
    "lora_dropout": 0.0,
    "lora_targets": "",
}


def add_initial_weights(parser: argparse.ArgumentParser) -> None:
    """Add the inputs of fine-tuning that every framework has."""
    parser.add_argument("--initial_model", type=Path)
    parser.add_argument("--freeze", default="")


def add_fine_tuning(parser: argparse.ArgumentParser) -> None:
    """Add the inputs of fine-tuning."""
    add_initial_weights(parser)
    add = parser.add_argument
    add("--layer_learning_rate_decay", type=_decay, default=1.0)
    add("--lora_rank", type=integer(0), default=0)
    add("--lora_alpha", type=number(0, above=True), default=16.0)
    add("--lora_dropout", type=number(0, below=1), default=0.0)
    add("--lora_targets", default="")


def _decay(text: str) -> float:
    value = number(0, above=True)(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text} is above 1: earlier blocks take smaller steps, not larger")
    return value


def is_hugging_face(model: str) -> bool:
    """Whether ``model`` names a folder with a Hugging Face model, ``hf:path`` or ``hf:``."""
    return model.startswith(HUGGING_FACE)


def split_patterns(text: str, name: str) -> list[str]:
    """Return the patterns in the value of the input ``name``, which commas separate.

    Raises:
        UserError: there is nothing between two commas, or a pattern holds a blank.
    """
    if not text.strip():
        return []
    patterns = [part.strip() for part in text.split(",")]
    if not all(patterns):
        raise UserError(f"`{name}` is `{text}`, with nothing between two commas", "remove one of the commas")
    spaced = next((pattern for pattern in patterns if len(pattern.split()) > 1), None)
    if spaced is not None:
        raise UserError(f"`{spaced}` in `{name}` has a blank in it", "separate patterns by commas")
    return patterns


def expect_initial_weights(settings: Settings) -> None:
    """Check the inputs of fine-tuning that every framework has.

    Raises:
        UserError: ``freeze`` is no list of patterns, or ``initial_model`` does not exist.
    """
    split_patterns(settings.freeze, "freeze")
    if settings.initial_model is not None and not settings.initial_model.exists():
        raise UserError(
            f"`initial_model` is `{settings.initial_model.name}`, which does not exist",
            "bind a model, or the output `model` or `checkpoints` of a training step",
        )


def expect_fine_tuning(settings: Settings) -> None:
    """Check what can be said before a framework is loaded.

    Raises:
        UserError: the inputs of fine-tuning contradict each other, or ``initial_model`` does not exist.
    """
    expect_initial_weights(settings)
    split_patterns(settings.lora_targets, "lora_targets")
    if is_hugging_face(settings.model):
        _expect_hugging_face(settings)
    elif settings.lora_rank:
        raise UserError(
            f"`lora_rank` is {settings.lora_rank}, but LoRA adapts a Hugging Face model,"
            f" and `model` is `{settings.model}`",
            "write `model: hf:path/of/the/folder`, or use `freeze` to train some of the parameters",
        )
    if settings.lora_targets and not settings.lora_rank:
        raise UserError(
            f"`lora_targets` is `{settings.lora_targets}`, but `lora_rank` is 0, which turns LoRA off",
            "set `lora_rank`, for example to 8, or leave `lora_targets` out",
        )


def _expect_hugging_face(settings: Settings) -> None:
    folder = settings.model.removeprefix(HUGGING_FACE)
    if settings.strategy not in _ANY_MODEL and settings.world_size > 1:
        raise UserError(
            f"`strategy: {settings.strategy}` cannot divide the Hugging Face model `{settings.model}`",
            "use `fsdp`, which shards any model, or `ddp`",
        )
    if not folder and settings.initial_model is None:
        raise UserError(
            "`model` is `hf:`, the Hugging Face model of `initial_model`, which is not given",
            "bind `initial_model`, or name a folder of the code: `hf:path/of/the/folder`",
        )
    path = PurePosixPath(folder)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(
            f"model folder `{folder}` is outside the code folder", "write a path relative to the spec"
        )
    if folder and not Path(folder).is_dir():
        raise UserError(f"model folder `{folder}` does not exist in the code folder `{Path.cwd().name}`")
