"""Decides whether a training fits the memory of its VM size, and finds the changes after which it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.wording import format_memory
from worldsize.facts import cuda, prices, vm_sizes
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning import degrees
from worldsize.planning.memory.estimate import Breakdown, estimate
from worldsize.planning.memory.network import Network, Setup, gpu_constants


class Machine(Struct, frozen=True):
    """Where a training runs: a VM size, and how many processes share one instance."""

    size: VmSize
    processes: int


def judge_memory(
    network: Network, setup: Setup, breakdown: Breakdown, machine: Machine, knobs: Knobs
) -> tuple[str, str, str] | None:
    """Slug, message and help of what is wrong; None where it fits with room to spare, or nothing is known."""
    room = available_bytes(machine.size, machine.processes)
    if room is None or breakdown.total <= room * gpu_constants().room_share:
        return None
    over = breakdown.total > room
    needed = format_memory(breakdown.total)
    message = f"`{network.name}` with micro-batches of {setup.micro_batch} needs {needed} per process"
    message += f", {'but' if over else 'and'} {_where(machine, room)}"
    if over:
        states, activations = format_memory(_states(breakdown)), format_memory(breakdown.activations)
        message += f" (states {states}, activations {activations})"
    slug = "memory-exceeded" if over else "memory-nearly-full"
    return slug, message, _help(network, setup, breakdown, machine, knobs)


def _states(breakdown: Breakdown) -> int:
    return breakdown.parameters + breakdown.gradients + breakdown.optimizer + breakdown.buffers


def _where(machine: Machine, room: int) -> str:
    size, processes = machine.size, machine.processes
    if size.devices:
        share = "a GPU" if processes <= size.devices else f"each of {processes} processes on its GPUs"
        return f"{share} of `{size.name}` has {format_memory(room)}"
    share = f", {format_memory(room)} for each of {processes} processes" if processes > 1 else ""
    return f"`{size.name}` has {format_memory(int((size.ram_gib or 0) * 2**30))} of memory{share}"


def _help(network: Network, setup: Setup, breakdown: Breakdown, machine: Machine, knobs: Knobs) -> str:
    room = int((available_bytes(machine.size, machine.processes) or 0) * gpu_constants().room_share)
    fitting = find_remedies(network, setup, room, knobs)
    options = [f"{text} ({format_memory(needed)})" for text, (_, needed) in fitting]
    bigger = (
        pair
        for pair in larger_sizes(machine.size, machine.processes)
        if breakdown.total <= pair[1] * gpu_constants().room_share
    )
    size, memory = next(bigger, (None, 0))
    if size is not None:
        options.append(f"`instance_type: {size.name}` ({format_memory(memory)})")
    if options:
        return f"what fits: {', or '.join(options)}"
    if "tensor_parallel" in knobs.strategies and not network.heads:
        return "split the model over more ranks with `parallelism:`, or make it smaller"
    return "shard the model over more ranks, or make it smaller"


GIB = 2**30


def available_bytes(size: VmSize, processes: int) -> int | None:
    """Bytes for each process: of its GPU, or of the instance's memory that it shares; None where unknown.

    Vendors print GB for what is GiB or a little less, so that this is rather too much than too little.
    """
    if size.devices:
        whole = size.gpu_memory_gib
        sharing = -(-processes // size.devices)
    else:
        whole, sharing = size.ram_gib, processes
    return None if whole is None else int(whole * GIB) // max(sharing, 1)


def larger_sizes(size: VmSize, processes: int) -> list[tuple[VmSize, int]]:
    """Sizes on sale with as many devices and more memory for a process: the smallest, then cheapest first.

    They run what the size runs: another vendor's GPUs or processor need other builds.
    """
    room, kind = available_bytes(size, processes) or 0, _find_kind(size)
    larger: list[tuple[VmSize, int]] = []
    for name in vm_sizes.names():
        other = vm_sizes.lookup(name)
        if other is None or other.status != "current" or other.gpus != size.gpus or other.capacity:
            continue
        if _find_kind(other) != kind:
            continue
        memory = available_bytes(other, processes)
        if memory is not None and memory > room:
            larger.append((other, memory))
    return sorted(larger, key=lambda pair: (pair[1], _amount(pair[0]), pair[0].name))


def _find_kind(size: VmSize) -> tuple[str, str] | None:
    """The vendor of a size's GPUs and its kind of processor."""
    gpu = cuda.find_gpu(size.gpu_model) if size.devices else None
    return None if gpu is None else (gpu.vendor, gpu.processor)


def _amount(size: VmSize) -> float:
    """What a size costs where most are sold, to order sizes; infinite if that is unknown."""
    price = prices.find_price(size.name, prices.DEFAULT_REGION, "dedicated")
    return float("inf") if price is None else price.amount


MAX_REMEDIES = 3  # a help with more is not read
LARGEST_SHARE = 2**32  # samples of a rank's step whose divisors are looked for; none that is larger is meant
T = TypeVar("T")
Change = tuple[str, Mapping[str, Any]]
"""What to write, and the fields that it changes."""


class Knobs(Struct, frozen=True):
    """What the component lets one choose."""

    checkpointing: bool = False
    strategies: tuple[str, ...] = ()
    stages: bool = False
    micro_batch: bool = True


def find_remedies(
    network: Network, setup: Setup, room: int, knobs: Knobs
) -> list[tuple[str, tuple[Setup, int]]]:
    """Changes after which a rank needs at most ``room`` bytes, each with its setup and what that needs."""

    def fit(fields: Mapping[str, Any]) -> tuple[Setup, int] | None:
        changed = replace(setup, **fields)
        needed = estimate(network, changed)
        return (changed, needed.total) if needed is not None and needed.total <= room else None

    kinds = (
        _sharding(network, setup, knobs),
        _micro_batch(setup, knobs),
        _checkpointing(network, setup, knobs),
    )
    return find_fewest_changes(kinds, fit)[:MAX_REMEDIES]


def find_fewest_changes(
    kinds: Iterable[Sequence[Change]], fit: Callable[[Mapping[str, Any]], T | None]
) -> list[tuple[str, T]]:
    """Single changes after which something fits, else as few of different kinds together as are needed.

    Of each combination of kinds it is the first that fits, with its text. ``fit`` gets the fields to change.
    """
    offered = [changes for changes in kinds if changes]
    for together in range(1, len(offered) + 1):
        fitting: list[tuple[str, T]] = []
        for some in combinations(offered, together):
            for chosen in product(*some):
                fitted = fit({name: value for _, fields in chosen for name, value in fields.items()})
                if fitted is not None:
                    fitting.append((" with ".join(text for text, _ in chosen), fitted))
                    break
        if fitting:
            return fitting
    return []


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
            ("`strategy: fsdp` and `fsdp_reduce: micro_batch`", {"strategy": "fsdp", "reduce_always": True}),
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
