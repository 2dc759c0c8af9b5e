"""Initial weights from another training, matched by the names of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from wsshards.errors import UserError
from wstrain_torch.freezing import short_name
from wstrain_torch.weight_files import Weights, read_weights

_SHOWN = 3  # names in a message
# What wrappers put before the name of a parameter: an exported program, DDP, torch.compile, our own models.
_PREFIXES = ("", "network.", "module.", "_orig_mod.", "body.", "network.network.", "network.body.")
_COUNTER = "num_batches_tracked"


def load_initial_weights(model: nn.Module, place: Path) -> str:
    """Load the weights in ``place`` into ``model``, in place.

    A head with another number of outputs, or none in the file, keeps its own initial weights.

    Args:
        model: not yet distributed.
        place: see :func:`wstrain_torch.weight_files.read_weights`.

    Returns:
        What was loaded, as a sentence.

    Raises:
        UserError: there are no weights, none has the name of a parameter, or one has another shape.
    """
    weights, source = read_weights(place)
    own = model.state_dict()
    found = _match_names(weights, own)
    if not found:
        theirs, ours = (", ".join(f"`{name}`" for name in list(names)[:_SHOWN]) for names in (weights, own))
        raise UserError(
            f"no parameter of the model has a name of `initial_model`: {theirs} there, {ours} here",
            "train the same model that the weights are from",
        )
    head = find_head(model)
    different = {name for name, tensor in found.items() if tensor.shape != own[name].shape}
    missing = {name for name in own if name not in found and not name.endswith(_COUNTER)}
    _expect_body(own, found, [name for name in own if name in different | missing and name not in head])
    loaded = {name: tensor for name, tensor in found.items() if name not in different}
    with torch.no_grad():
        for name, tensor in loaded.items():
            own[name].copy_(tensor)
    return _describe(source, found, own, sorted((different | missing) & head))


def find_head(model: nn.Module) -> set[str]:
    """Return the names of the parameters of the last layer, whose outputs are those of the task."""
    names = [name for name, _ in model.named_parameters()]
    layer = names[-1].rpartition(".")[0]
    return {name for name in names if name.rpartition(".")[0] == layer}


def _match_names(weights: Weights, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights the names of the model, by the prefixes with which most of them match."""
    best: dict[str, Tensor] = {}
    for removed in _PREFIXES:
        for added in _PREFIXES:
            if removed and added == removed:
                continue
            renamed = {
                f"{added}{name.removeprefix(removed)}": tensor
                for name, tensor in weights.items()
                if name.startswith(removed)
            }
            matched = {name: tensor for name, tensor in renamed.items() if name in own}
            best = max(best, matched, key=len)
    return best


def _expect_body(own: Mapping[str, Tensor], found: Mapping[str, Tensor], wrong: list[str]) -> None:
    if not wrong:
        return
    described = [
        f"`{short_name(name)}` has shape {list(found[name].shape)} there and {list(own[name].shape)} here"
        if name in found
        else f"`{short_name(name)}` {list(own[name].shape)} is missing there"
        for name in wrong[:_SHOWN]
    ]
    more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    raise UserError(
        f"`initial_model` does not fit the model: {'; '.join(described)}{more}",
        "use the same model with the same sizes; only its last layer may differ",
    )


def _describe(source: str, found: Mapping[str, Tensor], own: Mapping[str, Tensor], new: list[str]) -> str:
    if not new:
        return f"initial weights: all of {source}"
    described = ", ".join(
        f"{short_name(name)} {list(own[name].shape)}"
        + (f" ({list(found[name].shape)} there)" if name in found else "")
        for name in new
    )
    return f"initial weights: {source}, but the last layer is new: {described}"
