"""What this machine offers: GPUs by nvidia-smi, else the cores this process may use."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Slots for processes: one a GPU where there are any, else one a core."""

    cores: int
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them

    @property
    def slots(self) -> int:
        """How many training processes run at full speed side by side."""
        return len(self.gpus) or self.cores

    @property
    def unit(self) -> str:
        """What a slot is, in the singular."""
        return "GPU" if self.gpus else "core"


def detect() -> Machine:
    """Look at the machine; CUDA_VISIBLE_DEVICES and the CPU affinity are respected."""
    return Machine(_cores(), _gpus())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _gpus() -> tuple[str, ...]:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = [name.strip() for name in chosen.split(",")]
        return tuple(name for name in names if name and name != "-1")
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listing = subprocess.run(
            [program, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # a driver that does not answer drives no GPU
        return ()
    return tuple(word for word in listing.stdout.split() if word.isdigit())
