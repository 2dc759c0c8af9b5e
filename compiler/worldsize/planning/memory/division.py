"""Which weights a rank has, and how much of each: stages, shares of layers, slices."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from worldsize.planning.memory.network import Network, Part, Weight
from wstrain.launch import mesh


def split_stages(network: Network, count: int) -> list[tuple[Part, ...]]:
    """The parts of each pipeline stage, cut as the trainer cuts them; empty where it cannot be cut.

    What has no weights, such as the loss, goes with the part before it.
    """
    if count == 1:
        return [network.parts]
    groups: list[list[Part]] = []
    for part in network.parts:
        if part.weights or not groups:
            groups.append([part])
        else:
            groups[-1].append(part)
    cut = mesh.partition_blocks([sum(part.trained for part in group) for group in groups], count)
    return [tuple(part for number in numbers for part in groups[number]) for numbers in cut]


def divide_weight(weight: Weight, ranks: int) -> Weight:
    """What a rank has of a weight that tensor parallelism divides over ``ranks`` (Shoeybi et al. 2019)."""
    if weight.dimension is None or ranks == 1:
        return weight
    shape = list(weight.shape)
    shape[weight.dimension] = -(-shape[weight.dimension] // ranks)
    return replace(weight, shape=tuple(shape))


def divide_parts(parts: Sequence[Part], ranks: int) -> tuple[Part, ...]:
    """Parts with this rank's share of every weight."""
    if ranks == 1:
        return tuple(parts)
    return tuple(
        replace(part, weights=tuple(divide_weight(w, ranks) for w in part.weights)) for part in parts
    )


def count_slice(weight: Weight, ranks: int) -> int:
    """Numbers of an FSDP2 slice: whole rows of the first dimension, the first ranks have the most.

    Source: ``torch.distributed.fsdp.fully_shard``, which chunks every parameter in dimension 0 and pads the
    last slices to the size of the first.
    """
    if not weight.shape:
        return 1
    rows = weight.shape[0]
    return -(-rows // ranks) * (weight.count // rows) if rows else 0
