"""Whether a process failed because it wants a GPU and this machine has none.

Libraries say so in many ways, most of which name neither the machine nor what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from worldsize.running.recovering.attribution import said

# torch.distributed and what builds on it: with GPUs in the build but not in the machine, and without.
_NCCL = re.compile(
    r"ProcessGroupNCCL is only supported with GPUs"
    r"|doesn't have NCCL built in|nccl\b.{0,80}only supported (?:on|with) GPU",
    re.IGNORECASE,
)
_TENSORFLOW = re.compile(r"\[\[Nccl\w+\]\]|Op 'Nccl\w+'")
_CUDA = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver on your system|No CUDA GPUs are available"
    r"|has no attribute '_cuda_\w+'|no CUDA-capable device is detected|CUDA driver version is insufficient"
    r"|torch\.cuda\.is_available\(\) is False|CUDAAccelerator.* can ?not run on your system"
    r"|No supported gpu backend found|Could not satisfy device specification '[^']*GPU"
    r"|unknown device\.? /\S*GPU:\d",
    re.IGNORECASE,
)
_CHOICE = (
    'where `torch.cuda.is_available()` is false, as in `"nccl" if torch.cuda.is_available() else "gloo"`'
)


def explain(lines: Sequence[str], gpus: Sequence[str]) -> tuple[str, str] | None:
    """Return why a process failed and what to do about it, None where it is not for want of a GPU.

    Args:
        lines: The last lines that it wrote.
        gpus: Those of this machine.
    """
    if gpus or said(lines) is not None:  # what ends in a sentence of its own needs no other
        return None
    nccl = "it asks for NCCL, which moves data between GPUs, and this machine has none"
    if any(_NCCL.search(line) for line in lines):
        return nccl, f"help: take the backend `gloo` {_CHOICE}"
    if any(_TENSORFLOW.search(line) for line in lines):
        return nccl, "help: leave the choice to TensorFlow: `NcclAllReduce` is only for GPUs"
    if any(_CUDA.search(line) for line in lines):
        words = "it asks for a GPU, and this machine has none"
        return words, 'help: take the device "cpu" where `torch.cuda.is_available()` is false'
    return None
