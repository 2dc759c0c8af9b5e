"""Finds changes after which a training fits: single ones, else several together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations, product
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.planning import degrees
from worldsize.planning.memory.estimate import estimate
from worldsize.planning.memory.network import Network, Setup

MAX_REMEDIES = 3  # a help with more is not read
LARGEST_SHARE = 2**32  # samples of a rank's step whose divisors are looked for; none that is larger is meant
Change = tuple[str, Mapping[str, Any]]
"""What to write, and the fields of the setup that it changes."""


class Knobs(Struct, frozen=True):
    """What the component lets one choose."""

    checkpointing: bool = False
    strategies: tuple[str, ...] = ()
    stages: bool = False
    micro_batch: bool = True


class Remedy(Struct, frozen=True):
    """A change of the spec, and the bytes that a rank needs with it."""

    text: str
    setup: Setup
    total: int


def find_remedies(network: Network, setup: Setup, room: int, knobs: Knobs) -> list[Remedy]:
    """Changes after which a rank needs at most ``room`` bytes: single ones, else as few together as fit."""
    kinds = [
        kind
        for kind in (
            _sharding(network, setup, knobs),
            _micro_batch(setup, knobs),
            _checkpointing(network, setup, knobs),
        )
        if kind
    ]
    chosen = [_find_fitting(network, setup, room, product(kind)) for kind in kinds]
    remedies = [remedy for remedy in chosen if remedy is not None]
    for together in range(2, len(kinds) + 1):
        if remedies:
            break
        chosen = [
            _find_fitting(network, setup, room, product(*some)) for some in combinations(kinds, together)
        ]
        remedies = [remedy for remedy in chosen if remedy is not None]
    return remedies[:MAX_REMEDIES]


def _find_fitting(
    network: Network, setup: Setup, room: int, choices: Iterable[tuple[Change, ...]]
) -> Remedy | None:
    """The first of some changes, made together, after which it fits."""
    for changes in choices:
        changed = setup
        for _, fields in changes:
            changed = replace(changed, **fields)
        needed = estimate(network, changed)
        if needed is not None and needed.total <= room:
            return Remedy(" with ".join(text for text, _ in changes), changed, needed.total)
    return None


def _sharding(network: Network, setup: Setup, knobs: Knobs) -> list[Change]:
    """The next stages of ZeRO, or FSDP in place of whole copies."""
    if setup.data == 1:
        return []  # there is no other rank to share with
    if setup.strategy == "deepspeed" and knobs.stages:
        return [(f"`zero_stage: {stage}`", {"stage": stage}) for stage in range(setup.stage + 1, 4)]
    whole = setup.strategy in ("ddp", "tensor_parallel")
    if whole and "fsdp" in knobs.strategies and network.has_blocks:
        return [
            ("`strategy: fsdp`", {"strategy": "fsdp"}),
            (
                "`strategy: fsdp` and `fsdp_reduce: micro_batch`",
                {"strategy": "fsdp", "reduce_always": True},
            ),
        ]
    return []


def _micro_batch(setup: Setup, knobs: Knobs) -> list[Change]:
    """Smaller micro-batches and more of them: the same global batch. The largest first."""
    share = setup.micro_batch * setup.accumulation
    if not knobs.micro_batch or share > LARGEST_SHARE:
        return []
    return [
        (
            f"`batch_size_per_device: {micro}` and `gradient_accumulation_steps: {share // micro}`",
            {"micro_batch": micro, "accumulation": share // micro},
        )
        for micro in reversed(degrees.divisors(share))
        if micro < setup.micro_batch
    ]


def _checkpointing(network: Network, setup: Setup, knobs: Knobs) -> list[Change]:
    if not knobs.checkpointing or setup.checkpointing or not network.has_blocks:
        return []
    return [("`activation_checkpointing: blocks`", {"checkpointing": True})]
