"""The most memory that this process has used, beside what was planned.

On a GPU it is what torch's tensors took at once and what the process takes beside them, as a plan counts
both; without one, the largest resident set of the process.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_KIB = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB


def peak_bytes(device: str = "cpu") -> int:
    """Return the most bytes used at once so far.

    Args:
        device: ``cuda`` for this process's GPU; else the process itself.
    """
    if device == "cuda":
        import torch  # noqa: PLC0415 - the only thing here that needs it

        return int(torch.cuda.max_memory_allocated()) + _context_bytes()
    try:
        # Not getrusage: on Linux a process inherits the peak of who started it.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


def _context_bytes() -> int:
    """Bytes of the GPU that torch's allocator does not have: the context, kernels, NCCL's buffers.

    The driver counts what all processes use, and a rank has its GPU to itself.
    """
    import torch  # noqa: PLC0415

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
        predicted: ``predicted_memory_bytes`` of the plan: the total of a process; None where it has none.
        everyone: gives each rank's number, such as ``Group.everyone``; every rank has to call then.

    Returns:
        ``memory_peak_bytes``; with a prediction ``memory_predicted_bytes`` and their quotient
        ``memory_peak_over_predicted``, too.
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
