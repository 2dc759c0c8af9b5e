"""The memory of one rank, summed up."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from worldsize.planning.memory import activations, estimate as checkpoint, division, states
from worldsize.planning.memory import estimate as reserving
from worldsize.planning.memory.network import Network, Part
from worldsize.planning.memory.network import Setup

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
    """The memory of the rank that needs most; None where the model cannot be divided so.

    Args:
        network: the model.
        setup: how it is trained.
    """
    stages = division.split_stages(network, setup.pipeline)
    found = [estimate_stage(network, setup, parts, index) for index, parts in enumerate(stages)]
    return max(found, key=lambda breakdown: breakdown.total, default=None)


def estimate_stage(network: Network, setup: Setup, parts: tuple[Part, ...], index: int = 0) -> Breakdown:
    """The memory of a rank of pipeline stage ``index``, whose whole layers are ``parts``."""
    own = division.divide_parts(parts, setup.tensor)
    held = states.rank_states(own, setup)
    # The batch that is used and the one that is read meanwhile; a pipeline takes all micro-batches at once.
    batches = setup.accumulation if setup.pipeline > 1 else 2
    samples = network.sample * setup.micro_batch * batches
    needed = activations.peak_activations(own, setup, index) + samples if network.exact else 0
    return Breakdown(
        parameters=held.parameters,
        gradients=held.gradients,
        optimizer=held.optimizer,
        activations=needed,
        buffers=held.buffers,
        checkpoint=checkpoint.checkpoint_bytes(own, setup, held, needed),
        reserve=reserving.reserve_bytes(setup),
    )
