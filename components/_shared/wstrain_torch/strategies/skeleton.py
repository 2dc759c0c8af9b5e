"""A copy of a model without its weights, to put them back together in once they have been spread."""

from __future__ import annotations

import copy

from torch import nn


def skeleton(model: nn.Module) -> nn.Module:
    """Copy ``model`` with parameters on the meta device, which takes no memory, and buffers as they are.

    ``load_state_dict(weights, assign=True)`` makes it whole.
    """
    empty: dict[int, object] = {
        id(parameter): nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, empty)
