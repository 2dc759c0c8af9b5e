"""What fine-tuning changes about a Keras model: its initial weights, and what of it is trained."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import methodcaller
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError, describe_error
from wstrain.checkpoint import checkpoint_folder
from wstrain.checkpoint.checkpoint_folder import Checkpoint
from wstrain.checkpoint.initial_model import find_initial_checkpoint, find_weight_files
from wstrain.fine_tuning import split_patterns
from wstrain.settings import Settings
from wstrain.weight_names import (
    all_frozen_error,
    describe_loaded,
    expect_body,
    expect_matches,
    suggest_names,
)
from wstrain_tensorflow.checkpoint import NAMES, STATE
from wstrain_tensorflow.model_weights import is_legacy, name_weights

Weights = dict[str, npt.NDArray[Any]]

_PROGRAM = "saved_model.pb"
_PYTORCH = (".pt2", ".safetensors", ".pt", ".pth")
# The key of a variable in a SavedModel whose `weights` is a dictionary by name.
_KEY = re.compile(r"weights/(?P<name>[^/]+)/\.ATTRIBUTES/VARIABLE_VALUE")
_SHOWN = 3
_HELP = "bind the output `model` or `checkpoints` of a train_tensorflow step, or a registered model of one"


class FineTuning:
    """Changes each copy of the model in the same way.

    Args:
        settings: the component's inputs.

    Raises:
        UserError: `initial_model` cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._patterns = split_patterns(settings.freeze, "freeze")
        self._weights: tuple[Weights, str] | None = None
        if settings.initial_model is not None:
            self._weights = read_weight_files(settings.initial_model)
        self.said: list[str] = []
        """Sentences about what was done."""
        self.frozen: set[str] = set()
        """Names of the weights that are not trained because of `freeze`."""

    def apply(self, model: Any) -> None:
        """Load the weights and freeze parameters, in place.

        Raises:
            UserError: the weights do not fit, or a pattern matches nothing.
        """
        self.said = []
        if self._weights is not None:
            self.said.append(load_weights(model, *self._weights))
        if self._patterns:
            self.frozen = freeze_weights(model, self._patterns)
            self.said.append(_describe_training(model, self.frozen))


def load_weights(model: Any, weights: Weights, source: str) -> str:
    """Give a model the weights of the same names, in place.

    A last layer with another number of outputs, or none in ``weights``, keeps its own initial weights.

    Args:
        model: built.
        weights: arrays by name.
        source: where they are from, for a message.

    Returns:
        What was loaded, as a sentence.

    Raises:
        UserError: no name is one of the model, or a weight is missing or has another shape.
    """
    own = name_weights(model)
    found = {name: array for name, array in weights.items() if name in own}
    expect_matches(weights, own, found)
    wrong = [name for name in own if name not in found or tuple(found[name].shape) != tuple(own[name].shape)]
    head = find_head(model, own)
    expect_body(own, found, [name for name in wrong if name not in head])
    for name, array in found.items():
        if name not in wrong:
            own[name].assign(array)
    return describe_loaded(source, own, found, sorted(wrong))


def find_head(model: Any, named: Mapping[str, Any]) -> set[str]:
    """Return the names of the weights of the last layer, whose outputs are those of the task."""
    last = model.trainable_variables[-1] if model.trainable_variables else None
    layer = next((_layer(name) for name, variable in named.items() if variable is last), None)
    return {name for name in named if _layer(name) == layer}


def freeze_weights(model: Any, patterns: Sequence[str]) -> set[str]:
    """Take the weights that a pattern matches out of the training, in place.

    A layer all of whose trained weights are frozen is not trained as a whole: a batch normalisation among
    these keeps its running statistics, as Keras has it.

    Args:
        model: built.
        patterns: of names of weights, or of layers with all that is in them; ``*`` stands for anything.

    Returns:
        The names of the frozen weights.

    Raises:
        UserError: a pattern matches nothing, or nothing is left to train, or ``tf-keras`` would have to
            freeze a part of a layer.
    """
    trained = {id(variable) for variable in model.trainable_variables}
    named = {name: variable for name, variable in name_weights(model).items() if id(variable) in trained}
    frozen: set[str] = set()
    for pattern in patterns:
        matched = {name for name in named if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")}
        if not matched:
            raise UserError(
                f"`{pattern}` in `freeze` matches no parameter of the model",
                suggest_names(pattern, list(named)),
            )
        frozen |= matched
    if len(frozen) == len(named):
        raise all_frozen_error(patterns, len(frozen))
    _freeze({id(named[name]): name for name in frozen}, model)
    return frozen


def _describe_training(model: Any, frozen: Collection[str]) -> str:
    named = name_weights(model)
    left = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    total = left + sum(math.prod(named[name].shape) for name in frozen)
    return f"training {left:,} of {total:,} parameters"


def _freeze(frozen: Mapping[int, str], model: Any) -> None:
    legacy = is_legacy(model)
    for layer in _inner_layers(model):
        own = [id(variable) for variable in layer.trainable_variables]
        matched = [frozen[key] for key in own if key in frozen]
        if matched and len(matched) == len(own):
            layer.trainable = False
        elif matched and legacy and not list(_inner_layers(layer)):
            raise UserError(
                f"`freeze` matches `{matched[0]}`, a part of a layer, and tf-keras freezes whole layers",
                f"write `{_layer(matched[0])}`, or make the model with Keras 3",
            )
    if not legacy:
        for variable in model.trainable_variables:
            if id(variable) in frozen:
                variable.trainable = False


# `layers` has no nested ones.
_inner_layers = methodcaller("_flatten_layers", include_self=False)


def _layer(name: str) -> str:
    return name.rpartition("/")[0]


def read_weight_files(place: Path) -> tuple[Weights, str]:
    """Read the weights of an exported model, or of the best checkpoint of a folder, else its newest.

    Only numbers are read: neither the graph of a SavedModel nor a pickle is loaded.

    Args:
        place: what `initial_model` is bound to.

    Returns:
        Arrays by name, and what was read, for a message.

    Raises:
        UserError: there are no weights of TensorFlow, or several models, or a file is damaged.
    """
    checkpoint = find_initial_checkpoint(place, _HELP)
    if checkpoint is not None:
        return _read_checkpoint(checkpoint), f"checkpoint {checkpoint.path.name}"
    programs = find_weight_files(place, (_PROGRAM,))
    if len(programs) > 1:
        names = ", ".join(f"`{path.parent.relative_to(place)}`" for path in programs[:_SHOWN])
        raise UserError(
            f"`initial_model` has {len(programs)} SavedModels: {names}", "bind a folder with one of them"
        )
    if programs:
        return _read_program(programs[0].parent), f"SavedModel {programs[0].parent.name}"
    torch_file = next(iter(find_weight_files(place, _PYTORCH)), None)
    if torch_file is not None:
        raise UserError(
            f"PyTorch wrote `{torch_file.name}` of `initial_model`, and this step trains with TensorFlow",
            f"{_HELP}, or fine-tune it with train_ddp",
        )
    raise UserError(f"`initial_model` is `{place.name}`, which has no weights of TensorFlow in it", _HELP)


def _read_checkpoint(checkpoint: Checkpoint) -> Weights:
    name = checkpoint.path.name
    if STATE not in checkpoint.files:
        raise UserError(
            f"PyTorch wrote checkpoint `{name}` of `initial_model`, and this step trains with TensorFlow",
            f"{_HELP}, or fine-tune it with train_ddp",
        )
    card = json.loads((checkpoint.path / checkpoint_folder.CARD).read_text(encoding="utf-8"))
    named = card.get(NAMES)
    if named is None:
        raise UserError(
            f"checkpoint `{name}` of `initial_model` has no names of weights: an earlier version wrote it",
            "bind a checkpoint or a model of this version",
        )
    try:
        with np.load(checkpoint.path / STATE, allow_pickle=False) as stored:
            return {
                weight: stored[f"{kind}/{number}"]
                for kind, weights in named.items()
                for number, weight in enumerate(weights)
            }
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise UserError(
            f"checkpoint `{name}` of `initial_model` cannot be read: {describe_error(error)}", _HELP
        ) from error


def _read_program(folder: Path) -> Weights:
    import tensorflow as tf  # checkpoints need none

    try:
        reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
        keys = reader.get_variable_to_shape_map()
        weights = {
            _unescape(match["name"]): np.asarray(reader.get_tensor(key))
            for key in sorted(keys)
            if (match := _KEY.fullmatch(key))
        }
    except (tf.errors.OpError, RuntimeError, ValueError, OSError) as error:
        raise UserError(
            f"SavedModel `{folder.name}` of `initial_model` cannot be read: {describe_error(error)}", _HELP
        ) from error
    if not weights:
        raise UserError(
            f"SavedModel `{folder.name}` of `initial_model` has no weights by name: another program wrote it,"
            " or an earlier version of train_tensorflow",
            _HELP,
        )
    return weights


def _unescape(name: str) -> str:
    """Undo how TensorFlow writes a name in a key: ``/`` as ``.S``, and a dot twice."""
    return re.sub(r"\.([S.])", lambda match: "/" if match[1] == "S" else ".", name)
