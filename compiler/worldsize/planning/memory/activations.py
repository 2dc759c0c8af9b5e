"""What comes and goes within a step: activations, gradients, and buffers, moment by moment."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from worldsize.planning.memory import states
from worldsize.planning.memory.network import Part, Setup, gpu_constants
from worldsize.planning.memory.states import States


class Moment(Struct, frozen=True):
    """Bytes that a rank has at one moment of a step, beside weights and the optimizer's state."""

    activations: int
    gradients: int
    buffers: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.activations + self.gradients + self.buffers


def worst_moment(
    parts: Sequence[Part], setup: Setup, held: States, *, stage: int = 0, counted: bool = True
) -> Moment:
    """The moment of a rank's step with the most bytes; without activations where they were not ``counted``.

    The backward pass frees what the forward pass kept, part by part from the end, while gradients take its
    place. So the worst moment is the beginning or the end of a part's backward pass, or the optimizer's step,
    which has all gradients and no activations. At the beginning all that was kept up to the part is there,
    and what its own gradients take. A block that is computed again keeps its inputs only (Chen et al. 2016,
    arXiv:1604.06174), and all of itself at its own moment. The allocator of a host keeps much of what was
    freed for tensors of the same size, so that there each kind counts at its own worst moment.
    """
    samples = setup.micro_batch if counted else 0
    share = (setup.constants or gpu_constants()).compiled_share if setup.gpu and setup.compiled else 1
    below = before = 0
    moments = [Moment(0, held.gradients, held.buffers)]
    for part, (begun, ended) in zip(parts, states.pass_backward(parts, setup, held), strict=True):
        everything = int(share * _kept_bytes(part, setup, samples)) if counted else 0
        stays = everything
        if setup.checkpointing and part.block:
            stays = 4 * part.inputs * samples
        work = part.work * samples * (4 if part.name == "loss" else setup.narrow)
        extra = everything if stays != everything else 0
        before, below = below, below + stays
        moments.append(Moment(below + extra + work, begun.gradients, begun.buffers))
        moments.append(Moment(before, ended.gradients, ended.buffers))
    waiting = below * (count_in_flight(setup, stage) - 1)
    if setup.gpu if setup.pooled is None else setup.pooled:
        worst = max(moments, key=lambda moment: moment.total)
    else:
        worst = Moment(*(max(getattr(each, kind) for each in moments) for kind in Moment.__struct_fields__))
    return Moment(worst.activations + waiting, worst.gradients, worst.buffers)


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
    # DeepSpeed halves the whole model instead of single operations, and so does FSDP, but autocast on GPUs
    # makes the inputs of normalisations fp32 again; the loss is fp32 everywhere.
    halved = setup.strategy == "deepspeed" or (setup.strategy == "fsdp" and not setup.gpu)
    halved = halved and part.name != "loss"
    full = narrow if halved else 4
    wide = kept.wide + -(-kept.shared_wide // setup.tensor)
    small = kept.narrow + -(-kept.shared_narrow // setup.tensor)
    normed = kept.normed * (full if setup.gpu else narrow)
    return samples * (full * wide + narrow * small + normed) + narrow * kept.once
