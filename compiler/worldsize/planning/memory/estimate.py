"""Estimates the memory of one rank: states, what comes and goes within a step, checkpoint copy, reserve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from worldsize.planning.memory import states
from worldsize.planning.memory.network import Network, Part, Setup, gpu_constants
from worldsize.planning.memory.states import States

SHARES = ("parameters", "gradients", "optimizer", "activations", "buffers", "checkpoint", "reserve")


class Breakdown(Struct, frozen=True):
    """Bytes of the rank with the most, at the worst moment of an optimizer step."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int
    checkpoint: int
    reserve: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(getattr(self, name) for name in SHARES)


@lru_cache(maxsize=8)  # many steps of a pipeline train the same model in the same way
def estimate(network: Network, setup: Setup) -> Breakdown | None:
    """The memory of the rank that needs most; None where the model cannot be divided so."""
    stages = states.split_stages(network, setup.pipeline)
    breakdowns = [estimate_stage(network, setup, parts, index) for index, parts in enumerate(stages)]
    return max(breakdowns, key=lambda breakdown: breakdown.total, default=None)


def estimate_stage(network: Network, setup: Setup, parts: tuple[Part, ...], index: int = 0) -> Breakdown:
    """The memory of a rank of pipeline stage ``index``, whose whole layers are ``parts``."""
    share = states.divide_parts(parts, setup.tensor)
    kept_states = states.rank_states(share, setup)
    # The batch that is used and the one that is read meanwhile; a pipeline takes all micro-batches at once.
    batches = setup.accumulation if setup.pipeline > 1 else 2
    samples = network.sample * setup.micro_batch * batches
    worst = worst_moment(share, setup, kept_states, stage=index, counted=network.exact)
    needed = worst.activations + samples if network.exact else 0
    held = kept_states.parameters + worst.gradients + kept_states.optimizer + worst.buffers
    return Breakdown(
        parameters=kept_states.parameters,
        gradients=worst.gradients,
        optimizer=kept_states.optimizer,
        activations=needed,
        buffers=worst.buffers,
        checkpoint=checkpoint_bytes(share, setup, kept_states, needed),
        reserve=reserve_bytes(setup, held + needed),
    )


SLICED = ("fsdp", "tensor_parallel", "pipeline_parallel")  # every rank writes what it has


def checkpoint_bytes(parts: Sequence[Part], setup: Setup, kept_states: States, activations: int) -> int:
    """Bytes of the rank that writes, in the host's memory: of a process on CPUs, not of a GPU.

    The copy has the weights in fp32 and the moments, and its room is kept for the next checkpoint
    (``wstrain_torch.checkpoint``). Where ranks are alike, rank 0 copies all of it. ZeRO's slices are put
    together first, on rank 0, and copied then: for that moment there are two, but no activations.
    """
    if setup.gpu:
        return 0
    if setup.strategy in SLICED:
        return kept_states.parameters + kept_states.optimizer
    weights = [weight for part in parts for weight in part.weights]
    trained = sum(weight.count for weight in weights if weight.trained)
    copy = 4 * sum(weight.count for weight in weights) + 4 * setup.moments * trained
    return copy + (max(0, copy - activations) if setup.strategy == "deepspeed" else 0)


# Resident memory on a CPU, measured with torch 2.13 and MLflow 3.15 on Linux, x86-64, by training a model of
# a few thousand weights. Any rank: Python, torch with its kernels and threads, gloo. Only rank 0: MLflow with
# its client of a tracking server, and what torch.export and MLflow import to save a model.
TORCH = 412_000_000
TRACKING = 124_000_000
EXPORT = 43_000_000
DEEPSPEED = 41_000_000  # what it imports beside these; rank 0 with it had 620 MB


def reserve_bytes(setup: Setup, tensors: int) -> int:
    """Bytes of a process beside its ``tensors``: on a GPU, or of rank 0, which takes the most, on a host."""
    if setup.gpu:
        constants = setup.constants or gpu_constants()
        return int(constants.context_bytes + constants.allocator_share * tensors)
    return TORCH + TRACKING + EXPORT + (DEEPSPEED if setup.strategy == "deepspeed" else 0)


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
    below = before = trained = 0
    moments = [Moment(0, held.gradients, held.buffers)]
    for part, (begun, ended) in zip(parts, states.pass_backward(parts, setup, held), strict=True):
        trained += part.trained
        # Nothing before the first trained weight is passed backward.
        everything = int(share * _kept_bytes(part, setup, samples)) if counted and trained else 0
        stays = everything
        if setup.checkpointing and part.block and trained:
            stays = 4 * part.inputs * samples
        work = part.work * bool(trained) * samples * (4 if part.name == "loss" else setup.narrow)
        extra = everything if stays != everything else 0
        before, below = below, below + stays
        moments.append(Moment(below + extra + work, begun.gradients, begun.buffers))
        moments.append(Moment(before, ended.gradients, ended.buffers))
    waiting = below * (count_in_flight(setup, stage) - 1)
    if setup.gpu if setup.pooled is None else setup.pooled:
        worst = max(moments, key=lambda moment: moment.total)
    else:
        worst = Moment(*(max(getattr(one, kind) for one in moments) for kind in Moment.__struct_fields__))
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
