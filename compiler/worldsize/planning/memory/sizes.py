"""How much memory the processes of a VM size have, and which sizes have more."""

from __future__ import annotations

from worldsize.facts import vm_sizes
from worldsize.facts.vm_sizes import VmSize

GIB = 2**30


def available(size: VmSize, processes: int) -> int | None:
    """Bytes for each process: of its GPU, or of the instance's memory that it shares; None where unknown.

    Vendors print GB for what is GiB or a little less, so that this is rather too much than too little.
    """
    if size.devices:
        whole = size.gpu_memory_gib
        sharing = -(-processes // size.devices)
    else:
        whole, sharing = size.ram_gib, processes
    return None if whole is None else int(whole * GIB) // max(sharing, 1)


def larger(size: VmSize, processes: int) -> list[tuple[VmSize, int]]:
    """Sizes on sale with as many devices and more memory for a process: the smallest, then cheapest first."""
    own = available(size, processes) or 0
    found: list[tuple[VmSize, int]] = []
    for name in vm_sizes.names():
        other = vm_sizes.lookup(name)
        if other is None or other.status != "current" or other.gpus != size.gpus or other.capacity:
            continue
        memory = available(other, processes)
        if memory is not None and memory > own:
            found.append((other, memory))
    return sorted(found, key=lambda pair: (pair[1], pair[0].price_usd_per_hour or float("inf"), pair[0].name))
