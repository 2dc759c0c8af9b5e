"""What fine-tuning changes about a model before it is distributed: its weights, and what of it is trained."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from wstrain.fine_tuning import HUGGING_FACE, is_hugging_face, split_patterns
from wstrain.settings import Settings
from wstrain_torch.data import Task
from wstrain_torch.freezing import describe_training, freeze_parameters
from wstrain_torch.initial_weights import load_initial_weights
from wstrain_torch.models import hugging_face, lora


def build_hugging_face(settings: Settings, task: Task) -> nn.Module:
    """Load the Hugging Face model that the input ``model`` names; ``hf:`` is the one of `initial_model`.

    Raises:
        UserError: see :func:`wstrain_torch.models.hugging_face.build_model`.
    """
    folder = Path(settings.model.removeprefix(HUGGING_FACE))
    if _is_initial(settings):
        assert settings.initial_model is not None
        folder = hugging_face.find_folder(settings.initial_model)
    return hugging_face.build_model(folder, task, settings.model, settings.shards)


def prepare_fine_tuning(model: nn.Module, settings: Settings, task: Task) -> list[str]:
    """Load initial weights, add adapters and freeze parameters, in place.

    Returns:
        Sentences that say what was done.

    Raises:
        UserError: the weights do not fit, or a pattern matches nothing.
    """
    said: list[str] = []
    if settings.initial_model is not None and not _is_initial(settings):
        said.append(load_initial_weights(model, settings.initial_model))
    if settings.lora_rank and isinstance(model, hugging_face.HuggingFaceModel):
        targets = split_patterns(settings.lora_targets, "lora_targets")
        options = lora.LoraOptions(settings.lora_rank, settings.lora_alpha, settings.lora_dropout, targets)
        lora.add_adapters(model, task, options)
    patterns = split_patterns(settings.freeze, "freeze")
    if patterns:
        freeze_parameters(model, patterns)
    if patterns or settings.lora_rank:
        said.append(describe_training(model))
    return said


def _is_initial(settings: Settings) -> bool:
    """Whether `initial_model` is the model itself, and not weights for one."""
    return is_hugging_face(settings.model) and settings.model == HUGGING_FACE
