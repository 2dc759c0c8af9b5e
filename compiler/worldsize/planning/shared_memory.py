"""Plans the shared memory of a container: Azure ML's default of 2 GiB suffices for one process only.

Loader workers of PyTorch hand batches over in it, and NCCL copies through it between GPUs that cannot reach
each other. It is a limit and reserves nothing; a container that is given too little ends in `bus error`.
"""

from __future__ import annotations

import re

from worldsize.azureml import literals
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.model import Interface, Notes, Topology
from worldsize.spec.model import Step

QUANTITY = "shm_size"
DEFAULT_GIB = 2  # of a container for which nothing is said
ASSUMED_WORKERS = 4  # of a process whose loader workers nothing tells
_INPUTS = ("loader_workers", "num_workers", "num_loader_workers", "dataloader_num_workers", "workers")
OPTION = re.compile(r"--(?:dataloader[-_])?(?:num[-_])?(?:loader[-_])?workers")
_FLAG = re.compile(rf"{OPTION.pattern}[ =](?:(\d{{1,3}})|\$\{{\{{inputs\.(\w{{1,100}})\}}\}})(?!\S)")


def plan_shared_memory(
    step: Step, interface: Interface | None, topology: Topology, size: VmSize | None, notes: Notes
) -> None:
    """Add the row of the shared memory of a PyTorch step on a size with several GPUs.

    A process and each of its loader workers get 1 GiB; together at most half the memory of the size, as Linux
    gives its own ``/dev/shm``. A size that the step or its component gives is kept.
    """
    if topology.local_world_size is None or size is None or size.devices < 2:
        return
    if step.shm_size is not None:
        notes.derive(QUANTITY, step.shm_size.value, "", notes.given(QUANTITY))
        return
    if size.ram_gib is None or (interface is not None and interface.shm_size is not None):
        return
    processes, (workers, source) = topology.local_world_size, _workers(step, interface, notes)
    wanted, limit = processes * (1 + workers), int(size.ram_gib / 2)
    formula = f"{processes} × (1 + {workers}) GiB"
    if wanted > limit:
        wanted, formula, source = limit, f"half of {size.ram_gib:g} GiB", f"VM size {size.name}"
    if wanted > DEFAULT_GIB:
        notes.derive(QUANTITY, f"{wanted}g", formula, source)


def _workers(step: Step, interface: Interface | None, notes: Notes) -> tuple[int, str]:
    """The loader workers of a process, and where that number is from."""
    command = step.command.value if step.command is not None else ""
    flags = _FLAG.findall(command)
    if len(flags) == 1 and flags[0][0]:
        return int(flags[0][0]), "loader workers of the command"
    names = (*(name for _, name in flags if len(flags) == 1), *_INPUTS)
    for name in names:
        setting = step.with_.get(name)
        number = literals.parse_number(setting.value) if setting is not None else None
        if number is not None:
            return max(int(number), 0), notes.given(f"with.{name}")
    for name in names:
        number = literals.parse_number(interface.inputs.get(name)) if interface is not None else None
        if number is not None:
            return max(int(number), 0), f"default of {name}"
    if interface is not None and interface.loader_workers is not None and not OPTION.search(command):
        return interface.loader_workers, "loader workers of the script, by default"
    return ASSUMED_WORKERS, f"{ASSUMED_WORKERS} loader workers a process assumed"
