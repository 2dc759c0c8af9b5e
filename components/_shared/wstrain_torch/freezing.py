"""Parameters that are not trained, by patterns of their names."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from torch import nn

from wsshards.errors import UserError
from wstrain.weight_names import all_frozen_error, suggest_names
from wstrain_torch.models.batch_norm import BATCH_NORM

_WRAPPERS = ("network.", "base_model.model.", "body.")  # what stands before the names that users know


def freeze_parameters(model: nn.Module, patterns: Sequence[str]) -> int:
    """Take the parameters that a pattern matches out of the training, in place.

    They get no gradient and no state of the optimizer. A batch normalisation all of whose parameters are
    frozen stays in evaluation mode, so its running statistics stay as they are.

    Args:
        model: not yet distributed.
        patterns: of names of parameters, or of modules with all that is in them; ``*`` stands for anything.

    Returns:
        The number of parameters (not of tensors) that are frozen.

    Raises:
        UserError: a pattern matches nothing, or nothing is left to train.
    """
    named = dict(model.named_parameters())
    frozen: set[str] = set()
    for pattern in patterns:
        matched = {name for name in named if _matches(name, pattern)}
        if not matched:
            raise UserError(
                f"`{pattern}` in `freeze` matches no parameter of the model",
                suggest_names(pattern, [short_name(name) for name in named]),
            )
        frozen |= matched
    for name in frozen:
        named[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in named.values()):
        raise all_frozen_error(patterns, len(frozen))
    for layer in model.modules():
        if isinstance(layer, BATCH_NORM):
            _keep_statistics(layer)
    return sum(named[name].numel() for name in frozen)


def describe_training(model: nn.Module) -> str:
    """Return how many parameters are trained, of how many."""
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    return f"training {trained:,} of {total:,} parameters"


def short_name(name: str) -> str:
    """Return the name of a parameter in its own model, without what our wrappers put before it."""
    return list(_names(name))[-1]


def _matches(name: str, pattern: str) -> bool:
    return any(
        fnmatchcase(candidate, pattern) or fnmatchcase(candidate, f"{pattern}.*")
        for candidate in _names(name)
    )


def _names(name: str) -> Iterator[str]:
    yield name
    for wrapper in _WRAPPERS:
        if name.startswith(wrapper):
            name = name.removeprefix(wrapper)
            yield name


def _keep_statistics(layer: nn.Module) -> None:
    parameters = list(layer.parameters(recurse=False))
    if not parameters or any(parameter.requires_grad for parameter in parameters):
        return
    # A partial, unlike a closure, follows its module when the model is copied.
    layer.train = functools.partial(_evaluate, layer)  # type: ignore[method-assign]
    layer.train()


def _evaluate(layer: nn.Module, mode: bool = True) -> nn.Module:
    del mode
    return nn.Module.train(layer, False)
