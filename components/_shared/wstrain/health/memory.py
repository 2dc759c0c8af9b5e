"""The peak memory of this process, beside the planned memory.

On a GPU it is the peak of torch's tensors plus what the process takes beside them, as the plan counts both;
without a GPU, the largest resident set of the process.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wsshards.errors import UserError
from wstrain.settings import Settings

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
    gather: Callable[[int], Sequence[int]] | None = None,
) -> dict[str, float]:
    """Return metrics: ``memory_peak_bytes`` of the rank with the most, and the planned bytes beside it.

    Args:
        device: as for :func:`peak_bytes`.
        predicted: ``predicted_memory_bytes`` of the plan, the total of a process, or None.
        gather: returns the values of all ranks, such as ``Group.gather``; then every rank has to call.

    Returns:
        ``memory_peak_bytes``; with a prediction also ``memory_predicted_bytes`` and the quotient
        ``memory_peak_over_predicted``.
    """
    own_peak = peak_bytes(device)
    peak = max(gather(own_peak)) if gather is not None else own_peak
    metrics = {"memory_peak_bytes": float(peak)}
    if predicted:
        metrics |= {
            "memory_predicted_bytes": float(predicted),
            "memory_peak_over_predicted": round(peak / predicted, 4),
        }
    return metrics


# What torch's two allocators, NumPy and TensorFlow write when memory is short.
_SIGNS = ("out of memory", "can't allocate memory", "Unable to allocate", "OOM when allocating", "bad_alloc")
_REQUESTED = (
    re.compile(r"ried to allocate ([\d.]+) (bytes|[KMGT]iB)"),
    re.compile(r"Unable to allocate ([\d.]+) (bytes|[KMGT]iB)"),
)
_SHAPE = re.compile(r"tensor with shape\[([\d,]+)\] and type (\w+)")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_WIDTHS = {"half": 2, "bfloat16": 2, "float": 4, "int32": 4, "double": 8, "int64": 8}


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Bytes of memory that this process may use and does use, and a name for the limit."""

    total: int
    used: int
    kind: str


@contextmanager
def explain_out_of_memory(settings: Settings) -> Iterator[None]:
    """Turn an allocator's error into a sentence with numbers and a batch that would fit.

    Raises:
        UserError: there was not enough memory.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory_error(error, settings) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is an allocator's."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS)


def out_of_memory_error(error: BaseException, settings: Settings) -> UserError:
    """Return the error to stop with."""
    requested, limit = requested_bytes(str(error)), _memory_limit()
    more = f": {_size(requested)} more were asked for" if requested else ""
    message = (
        f"out of memory{more}; this process uses {_size(limit.used)} of {limit.kind}'s {_size(limit.total)}"
    )
    planned = settings.predicted_memory_bytes
    if planned:
        message += f", and {_size(planned)} were planned"
    # If even the plan exceeds the limit, it says by how much the batch is too large.
    share = min(0.5, limit.total / planned) if planned else 0.5
    return UserError(message, suggest_smaller_batch(settings, share))


def suggest_smaller_batch(settings: Settings, share: float) -> str:
    """Suggest settings with ``share`` of the samples at once and the same global batch."""
    micro, accumulation = settings.batch_size_per_device, settings.gradient_accumulation_steps
    smaller = smaller_batch(micro, share)
    if smaller < micro:
        return (
            f"set `batch_size_per_device` to {smaller} and `gradient_accumulation_steps` to"
            f" {accumulation * (micro // smaller)}: the same global batch of {settings.global_batch_size},"
            f" with activations of {smaller} samples instead of {micro}"
        )
    return (
        "one sample at a time is too much: use `activation_checkpointing: blocks`, a strategy that divides"
        " the model (`fsdp`), or an instance with more memory"
    )


def smaller_batch(micro: int, share: float) -> int:
    """Return the largest divisor of ``micro`` that is at most ``share`` of it, at least 1."""
    return max(
        (divisor for divisor in range(1, micro) if micro % divisor == 0 and divisor <= micro * share),
        default=1,
    )


def requested_bytes(text: str) -> int | None:
    """Return the bytes that an allocator was asked for, from its message."""
    for pattern in _REQUESTED:
        match = pattern.search(text)
        if match:
            return int(float(match[1]) * _UNITS[match[2]])
    match = _SHAPE.search(text)
    if match is None:
        return None
    count = _WIDTHS.get(match[2], 4)
    for length in match[1].split(","):
        count *= int(length)
    return count


def _memory_limit() -> MemoryLimit:
    """Return the limit of the GPU if torch is loaded and has one, else of this process."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        _, total = torch.cuda.mem_get_info()
        return MemoryLimit(int(total), int(torch.cuda.memory_allocated()), "the GPU")
    limits = [
        (_machine_bytes(), "the machine"),
        (_cgroup_bytes(), "the container"),
        (_limit_bytes(), "its limit"),
    ]
    total, kind = min((total, kind) for total, kind in limits if total)
    if kind == "its limit":
        return MemoryLimit(total, _status_bytes("VmSize"), kind)  # it counts addresses
    return MemoryLimit(total, _status_bytes("VmRSS") or peak_bytes(), kind)


def _limit_bytes() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return 0 if soft == resource.RLIM_INFINITY else soft


def _machine_bytes() -> int:
    return _lines_bytes(Path("/proc/meminfo"), "MemTotal") or 1 << 62


def _cgroup_bytes() -> int:
    """The limit of this process's own cgroup, in both versions; 0 for none."""
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 1 << 60:
            return int(text)
    return 0


def _status_bytes(name: str) -> int:
    return _lines_bytes(Path("/proc/self/status"), name)


def _lines_bytes(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024
    except (OSError, StopIteration, ValueError):
        return 0


def _size(count: int) -> str:
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.1f} {unit}"
    return f"{count} bytes"
