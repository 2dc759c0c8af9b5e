"""The peak memory of this process, beside the planned memory.

On a GPU it is the peak of torch's tensors plus what the process takes beside them, as the plan counts both;
without a GPU, the largest resident set of the process.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_KIB = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB


def peak_bytes(device: str = "cpu") -> int:
    """Return the peak memory so far, in bytes.

    Args:
        device: ``cuda`` for this process's GPU; else host memory.
    """
    if device == "cuda":
        import torch  # the only thing here that needs it

        return int(torch.cuda.max_memory_allocated()) + _context_bytes()
    try:
        # Not getrusage: on Linux a process inherits the peak of its parent.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


def _context_bytes() -> int:
    """Return the bytes of the GPU outside of torch's allocator: the context, kernels, NCCL's buffers.

    The driver counts all processes, but a rank has its GPU to itself.
    """
    import torch

    free, total = torch.cuda.mem_get_info()
    return max(0, int(total) - int(free) - int(torch.cuda.memory_reserved()))


def memory_metrics(
    device: str,
    predicted: int | None = None,
    everyone: Callable[[int], Sequence[int]] | None = None,
) -> dict[str, float]:
    """Return metrics: ``memory_peak_bytes`` of the rank with the most, and the planned bytes beside it.

    Args:
        device: as for :func:`peak_bytes`.
        predicted: ``predicted_memory_bytes`` of the plan, the total of a process, or None.
        everyone: returns the values of all ranks, such as ``Group.everyone``; then every rank has to call.

    Returns:
        ``memory_peak_bytes``; with a prediction also ``memory_predicted_bytes`` and the quotient
        ``memory_peak_over_predicted``.
    """
    own = peak_bytes(device)
    peak = max(everyone(own)) if everyone is not None else own
    metrics = {"memory_peak_bytes": float(peak)}
    if predicted:
        metrics |= {
            "memory_predicted_bytes": float(predicted),
            "memory_peak_over_predicted": round(peak / predicted, 4),
        }
    return metrics
