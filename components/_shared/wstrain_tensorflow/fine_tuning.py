"""What fine-tuning changes about a Keras model: its initial weights, and what of it is trained."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import methodcaller
from typing import Any

from wsshards.errors import UserError
from wstrain.fine_tuning import split_patterns
from wstrain.settings import Settings
from wstrain.weight_names import (
    all_frozen_error,
    describe_loaded,
    expect_body,
    expect_matches,
    suggest_names,
)
from wstrain_tensorflow.model_weights import is_legacy, name_weights
from wstrain_tensorflow.weight_files import Weights, read_weight_files


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
