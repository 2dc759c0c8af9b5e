"""Initial weights from another training, matched by the names of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from wstrain.weight_names import describe_loaded, expect_body, expect_matches
from wstrain_torch.freezing import short_name
from wstrain_torch.weight_files import Weights, read_weights

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
    expect_matches(weights, own, found)
    head = find_head(model)
    different = {name for name, tensor in found.items() if tensor.shape != own[name].shape}
    missing = {name for name in own if name not in found and not name.endswith(_COUNTER)}
    wrong = [name for name in own if name in different | missing and name not in head]
    expect_body(own, found, wrong, short_name)
    loaded = {name: tensor for name, tensor in found.items() if name not in different}
    with torch.no_grad():
        for name, tensor in loaded.items():
            own[name].copy_(tensor)
    return describe_loaded(source, own, found, sorted((different | missing) & head), short_name)


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
