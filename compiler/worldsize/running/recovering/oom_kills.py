"""Whether a process was killed because the machine, or its container, had no memory left.

The kernel sends SIGKILL and writes nothing into the process's log, but it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from worldsize.running.starting.sources import Source, Text
from wstrain.health.out_of_memory import smaller_batch

_VMSTAT, _EVENTS = Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events")
_MEMORY = Path("/proc/meminfo")


def count(vmstat: Path = _VMSTAT, events: Path = _EVENTS) -> int:
    """How many processes the kernel has killed for memory since the machine, or the container, started."""
    return max(_counter(vmstat, "oom_kill"), _counter(events, "oom_kill"))


def notes(inputs: Mapping[str, Source | None]) -> tuple[str, ...]:
    """What to say of it to who gave a step these inputs."""
    total = _counter(_MEMORY, "MemTotal:") * 1024
    said = [f"the machine has {total / 2**30:.1f} GiB of memory"] if total else []
    planned = _number(inputs, "predicted_memory_bytes")
    if planned and said:
        said[0] += f"; {planned / 2**30:.1f} GiB were planned for each process"
    micro = _number(inputs, "batch_size_per_device")
    accumulation = _number(inputs, "gradient_accumulation_steps") or 1
    smaller = smaller_batch(micro, 0.5) if micro else 0
    if micro and smaller < micro:
        said.append(
            f"help: set `batch_size_per_device` to {smaller} and `gradient_accumulation_steps` to"
            f" {accumulation * (micro // smaller)}: the same global batch, with half the activations or less"
        )
    else:
        said.append("help: let a process hold less at once, or start fewer of them")
    return tuple(said)


def _number(inputs: Mapping[str, Source | None], name: str) -> int:
    source = inputs.get(name)
    text = source.rendered if isinstance(source, Text) else ""
    return int(text) if text.isdigit() else 0


def _counter(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
    except (OSError, ValueError, IndexError):
        return 0
