"""What the backward pass needs of the forward pass."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.planning.memory.network import Part, Setup


def peak_activations(parts: Sequence[Part], setup: Setup, stage: int = 0) -> int:
    """Bytes of activations at the worst moment of a rank's step.

    The backward pass frees what the forward pass kept, part by part from the end, while the gradients of one
    part live: the worst moment is the largest, over the parts, of all that was kept up to it and what its own
    gradients take. A block that is computed again keeps its inputs only (Chen et al. 2016,
    arXiv:1604.06174), and all of itself at its own moment.
    """
    samples = setup.micro_batch
    highest = below = 0
    for part in parts:
        everything = _kept_bytes(part, setup, samples)
        stays = everything
        if setup.checkpointing and part.block:
            stays = 4 * part.inputs * samples
        work = part.work * samples * (4 if part.name == "loss" else setup.narrow)
        extra = everything if stays != everything else 0
        below += stays
        highest = max(highest, below + extra + work)
    return highest + below * (count_in_flight(setup, stage) - 1)


def count_in_flight(setup: Setup, stage: int) -> int:
    """Micro-batches whose activations a rank holds at once.

    GPipe holds all of a step (Huang et al. 2019); 1F1B as many as there are stages from this one on
    (Narayanan et al. 2019). Without a pipeline it is one.
    """
    if setup.pipeline == 1:
        return 1
    if setup.schedule == "1f1b":
        return min(setup.accumulation, setup.pipeline - stage)
    return setup.accumulation


def _kept_bytes(part: Part, setup: Setup, samples: int) -> int:
    kept, narrow = part.kept, setup.narrow
    # DeepSpeed halves the whole model instead of single operations; the loss is fp32 everywhere.
    halved = setup.strategy == "deepspeed" and part.name != "loss"
    full = narrow if halved else 4
    wide = kept.wide + -(-kept.shared_wide // setup.tensor)
    small = kept.narrow + -(-kept.shared_narrow // setup.tensor)
    normed = kept.normed * (full if setup.gpu else narrow)
    return samples * (full * wide + narrow * small + normed) + narrow * kept.once
