"""Optimizers by name, with weight decay on matrices only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from wsshards.errors import UserError
from wstrain.settings import OptimizerOptions

RATE = "rate_factor"  # of a group of parameters: what the learning rate is multiplied by
LAYER_WISE = ("lamb", "lars")  # of the package pytorch_optimizer


def build_optimizer(
    model: nn.Module, options: OptimizerOptions, learning_rate: float
) -> torch.optim.Optimizer:
    """Return the optimizer of ``model``'s parameters.

    Weight decay acts on weights of two or more dimensions. Biases and the scales of normalisation layers are
    left out: decaying them shrinks what keeps activations in range and regularises nothing (He et al. 2019,
    "Bag of Tricks", section 3.1). For ``sgd`` and ``adam`` it is the L2 term of the gradient, for ``adamw``
    it is decoupled (Loshchilov and Hutter 2019). ``lars`` adds it to the gradient of a layer and scales both
    to a thousandth of its weights (You et al. 2017), ``lamb`` to Adam's step, and scales both to its weights
    (You et al. 2020, algorithm 2).

    Raises:
        UserError: the optimizer's package is not installed.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    trained = [parameter for _, parameter in named]
    # One kernel cannot update tensors of different meshes, or sharded and whole tensors together.
    meshes = dict.fromkeys(getattr(p, "device_mesh", None) for p in trained)
    groups = [
        {
            "params": [p for p in alike if getattr(p, "device_mesh", None) == mesh],
            "weight_decay": options.weight_decay if decays else 0.0,
            RATE: rate,
        }
        for decays, rate, alike in _alike(named, options.rates)
        for mesh in meshes
    ]
    groups = [group for group in groups if group["params"]]
    if options.name in LAYER_WISE:
        return _build_layer_wise(groups, options, learning_rate)
    # One kernel for all parameters: a small model spends more time launching updates than computing them.
    common: dict[str, Any] = {"lr": learning_rate, "fused": _fused(trained, options.name)}
    if options.name == "sgd":
        return torch.optim.SGD(groups, momentum=options.momentum, **common)
    kind = torch.optim.AdamW if options.name == "adamw" else torch.optim.Adam
    return kind(groups, betas=(options.beta1, options.beta2), eps=options.epsilon, **common)


def _build_layer_wise(
    groups: list[dict[str, Any]], options: OptimizerOptions, learning_rate: float
) -> torch.optim.Optimizer:
    try:
        import pytorch_optimizer  # only these optimizers need it
    except ImportError:
        raise UserError(
            f"`optimizer: {options.name}` needs the package pytorch_optimizer, which is not installed",
            "pip install pytorch_optimizer",
        ) from None
    kind = pytorch_optimizer.Lamb if options.name == "lamb" else pytorch_optimizer.LARS
    settings: dict[str, Any] = {"momentum": options.momentum}
    if options.name == "lamb":
        settings = {"betas": (options.beta1, options.beta2), "eps": options.epsilon}
        # As in the paper: decay is scaled with the step, and a bias correction of the scaled step would make
        # the first ones ten times too long.
        settings |= {"weight_decouple": False, "adam_debias": True}
    optimizer: torch.optim.Optimizer = kind(groups, lr=learning_rate, **settings)
    return optimizer


def parameter_order(model: nn.Module, rates: Mapping[str, float] | None = None) -> list[str]:
    """Return the names of ``model``'s trained parameters as :func:`build_optimizer` numbers them.

    Args:
        model: the whole model.
        rates: factor of the learning rate of each parameter, by name; 1 if it is missing.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    names = {id(parameter): name for name, parameter in named}
    return [names[id(parameter)] for *_, alike in _alike(named, rates or {}) for parameter in alike]


def set_learning_rate(optimizer: Any, learning_rate: float) -> None:
    """Set the learning rate of every group of parameters, times the factor that the group has."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group.get(RATE, 1.0)


def _alike(
    named: Sequence[tuple[str, nn.Parameter]], rates: Mapping[str, float]
) -> list[tuple[bool, float, list[nn.Parameter]]]:
    """Group parameters of one decay and one rate, those with decay first: ``(decays, rate, parameters)``."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for decays in (True, False):
        for name, parameter in named:
            if (parameter.ndim >= 2) == decays:
                groups.setdefault((decays, rates.get(name, 1.0)), []).append(parameter)
    return [(decays, rate, alike) for (decays, rate), alike in groups.items()]


def _fused(trained: Sequence[nn.Parameter], name: str) -> bool:
    spread = any(hasattr(p, "device_mesh") for p in trained)  # torch has no fused SGD for sharded tensors
    return all(p.is_floating_point() for p in trained) and not (spread and name == "sgd")
