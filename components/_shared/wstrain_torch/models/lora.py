"""LoRA by ``peft``: small matrices beside frozen layers, which become part of them for the export.

Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models": a layer ``W x`` becomes
``W x + (alpha / rank) · B A x``, where only ``A`` and ``B`` are trained.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from wsshards.errors import UserError, describe_error
from wsshards.terms import CLASSIFICATION
from wstrain_torch.data import Task
from wstrain_torch.models.hugging_face import HuggingFaceModel, load_library

ALL_LINEAR = "all-linear"  # peft's word for every linear layer but the head


@dataclass(frozen=True, slots=True)
class LoraOptions:
    """How a model is adapted.

    Attributes:
        rank: of the added matrices.
        alpha: divided by ``rank`` it scales what they add.
        dropout: probability of a dropout before them.
        targets: names, or endings of names, of the layers that are adapted; empty for every linear layer.
    """

    rank: int
    alpha: float
    dropout: float
    targets: Sequence[str] = ()


def add_adapters(model: HuggingFaceModel, task: Task, options: LoraOptions) -> None:
    """Add adapters to the layers of ``model``, in place, and freeze all else but a classification's head.

    Raises:
        UserError: ``peft`` is not installed, or the model has none of the targets.
    """
    peft = load_library("peft")
    config = peft.LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules=list(options.targets) or ALL_LINEAR,
        task_type="SEQ_CLS" if task.name == CLASSIFICATION else "CAUSAL_LM",
    )
    _expect_targets(model, options.targets)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says what it changes about a Conv1D
            model.network = peft.get_peft_model(model.network, config)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(
            f"LoRA cannot adapt the model: {describe_error(error, 160)}",
            "name other layers in `lora_targets`, or leave it out for all linear layers",
        ) from error


def merge_adapters(model: nn.Module) -> nn.Module:
    """Return ``model`` with its adapters added to the layers, so that it is the model that it was before."""
    if isinstance(model, HuggingFaceModel) and hasattr(model.network, "merge_and_unload"):
        model.network = model.network.merge_and_unload()
    return model


def _expect_targets(model: HuggingFaceModel, targets: Sequence[str]) -> None:
    names = [name for name, _ in model.network.named_modules()]
    for target in targets:
        if not any(name == target or name.endswith(f".{target}") for name in names):
            leaves = sorted({name.rpartition(".")[2] for name, layer in _linear_layers(model.network)})
            close = difflib.get_close_matches(target, leaves, n=1)
            hint = f"did you mean `{close[0]}`? " if close else ""
            listed = ", ".join(f"`{leaf}`" for leaf in leaves[:8])
            raise UserError(
                f"`{target}` in `lora_targets` is not a layer of the model", f"{hint}its layers: {listed}"
            )


def _linear_layers(network: nn.Module) -> list[tuple[str, nn.Module]]:
    return [
        (name, layer)
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear) or type(layer).__name__ == "Conv1D"  # GPT-2's
    ]
