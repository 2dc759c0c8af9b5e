"""Whether a training fits its VM size, in words."""

from __future__ import annotations

from msgspec import Struct

from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.memory import remedies, verdict
from worldsize.planning.memory.estimate import Breakdown
from worldsize.planning.memory.network import Network
from worldsize.planning.memory.remedies import Knobs
from worldsize.planning.memory.network import Setup

NEARLY_FULL = 0.9  # fragments and what no formula knows take the rest


class Machine(Struct, frozen=True):
    """Where a training runs: a VM size, and how many processes share one instance."""

    size: VmSize
    processes: int


def judge_memory(
    network: Network, setup: Setup, found: Breakdown, place: Machine, knobs: Knobs
) -> tuple[str, str, str] | None:
    """Slug, message and help of what is wrong; None where it fits with room to spare, or nothing is known.

    Args:
        network: the model.
        setup: how it is trained.
        found: what a rank needs.
        place: where it runs.
        knobs: what the component lets one choose.
    """
    room = verdict.available_bytes(place.size, place.processes)
    if room is None or found.total <= room * NEARLY_FULL:
        return None
    over = found.total > room
    what = f"`{network.name}` with micro-batches of {setup.micro_batch} needs {format_bytes(found.total)} a process"
    message = f"{what}, {'but' if over else 'and'} {_where(place, room)}"
    if over:
        message += f" (states {format_bytes(_states(found))}, activations {format_bytes(found.activations)})"
    slug = "memory-exceeded" if over else "memory-nearly-full"
    return slug, message, _help(network, setup, found, place, knobs)


def format_bytes(size: int) -> str:
    """``12.3 GiB``, ``340 MiB`` below one, ``12 KiB`` below one of these."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{-(-size // 2**10)} KiB"


def _states(found: Breakdown) -> int:
    return found.parameters + found.gradients + found.optimizer + found.buffers


def _where(place: Machine, room: int) -> str:
    size, processes = place.size, place.processes
    if size.devices:
        each = "a GPU" if processes <= size.devices else f"each of {processes} processes on its GPUs"
        return f"{each} of `{size.name}` has {format_bytes(room)}"
    share = f", {format_bytes(room)} for each of {processes} processes" if processes > 1 else ""
    return f"`{size.name}` has {format_bytes(int((size.ram_gib or 0) * 2**30))} of memory{share}"


def _help(network: Network, setup: Setup, found: Breakdown, place: Machine, knobs: Knobs) -> str:
    room = int((verdict.available_bytes(place.size, place.processes) or 0) * NEARLY_FULL)
    fitting = remedies.find_remedies(network, setup, room, knobs)
    options = [f"{remedy.text} ({format_bytes(remedy.total)})" for remedy in fitting]
    bigger = (
        pair for pair in verdict.larger_sizes(place.size, place.processes) if found.total <= pair[1] * NEARLY_FULL
    )
    size, memory = next(bigger, (None, 0))
    if size is not None:
        options.append(f"`instance_type: {size.name}` ({format_bytes(memory)})")
    if options:
        return f"what fits: {', or '.join(options)}"
    if "tensor_parallel" in knobs.strategies:
        return "split the model over more ranks with `parallelism:`, or make it smaller"
    return "shard the model over more ranks, or make it smaller"
