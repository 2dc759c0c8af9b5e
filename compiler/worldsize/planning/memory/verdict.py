"""Decides whether a training fits the memory of its VM size, and describes what would fit."""

from __future__ import annotations

from msgspec import Struct

from worldsize.base.wording import format_memory
from worldsize.facts import prices, vm_sizes
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.memory import remedies
from worldsize.planning.memory.estimate import Breakdown
from worldsize.planning.memory.network import Network, Setup, gpu_constants
from worldsize.planning.memory.remedies import Knobs


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
        each = "a GPU" if processes <= size.devices else f"each of {processes} processes on its GPUs"
        return f"{each} of `{size.name}` has {format_memory(room)}"
    share = f", {format_memory(room)} for each of {processes} processes" if processes > 1 else ""
    return f"`{size.name}` has {format_memory(int((size.ram_gib or 0) * 2**30))} of memory{share}"


def _help(network: Network, setup: Setup, breakdown: Breakdown, machine: Machine, knobs: Knobs) -> str:
    room = int((available_bytes(machine.size, machine.processes) or 0) * gpu_constants().room_share)
    fitting = remedies.find_remedies(network, setup, room, knobs)
    options = [f"{remedy.text} ({format_memory(remedy.total)})" for remedy in fitting]
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
    if "tensor_parallel" in knobs.strategies:
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
    """Sizes on sale with as many devices and more memory for a process: the smallest, then cheapest first."""
    own = available_bytes(size, processes) or 0
    breakdown: list[tuple[VmSize, int]] = []
    for name in vm_sizes.names():
        other = vm_sizes.lookup(name)
        if other is None or other.status != "current" or other.gpus != size.gpus or other.capacity:
            continue
        memory = available_bytes(other, processes)
        if memory is not None and memory > own:
            breakdown.append((other, memory))
    return sorted(breakdown, key=lambda pair: (pair[1], _amount(pair[0]), pair[0].name))


def _amount(size: VmSize) -> float:
    """What a size costs where most are sold, to order sizes; infinite if that is unknown."""
    price = prices.find_price(size.name, prices.DEFAULT_REGION, "dedicated")
    return float("inf") if price is None else price.amount
