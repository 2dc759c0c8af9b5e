"""Learning rates that grow with the depth of a layer, for fine-tuning."""

from __future__ import annotations

from torch import nn

from wstrain_torch.models.layers import find_blocks


def layer_rates(model: nn.Module, decay: float) -> dict[str, float]:
    """Return what the learning rate of each parameter is multiplied by.

    With ``L`` blocks, numbered from 1, the factor of block ``i`` is ``decay ** (L + 1 - i)``, that of what
    comes before the blocks (embeddings) ``decay ** (L + 1)``, and that of what comes after them (the head) 1,
    as in the code of Bao et al. 2022, "BEiT". The idea is that of Howard and Ruder 2018, "ULMFiT", section
    3.2, and of Clark et al. 2020, "ELECTRA", section 3.1.

    Args:
        model: whole, not yet distributed; its ``blocks`` tell where a parameter is.
        decay: from above 0 to 1.

    Returns:
        Factors by parameter name; empty if ``decay`` is 1.

    Raises:
        UserError: the model names no blocks.
    """
    if decay == 1.0:
        return {}
    blocks = find_blocks(model, f"`layer_learning_rate_decay: {decay:g}`")
    owner = {
        id(parameter): number
        for number, block in enumerate(blocks, start=1)
        for parameter in block.parameters()
    }
    depth, layer = len(blocks), 0
    last_of_blocks = max(
        number for number, parameter in enumerate(model.parameters()) if id(parameter) in owner
    )
    rates: dict[str, float] = {}
    for number, (name, parameter) in enumerate(model.named_parameters()):
        layer = owner.get(id(parameter), 0 if number < last_of_blocks else depth + 1)
        rates[name] = decay ** (depth + 1 - layer)
    return rates
