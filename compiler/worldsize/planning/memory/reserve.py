"""What a process takes before it has a model."""

from __future__ import annotations

# The CUDA context with its kernels, beside which NCCL's buffers are small. "The kernels alone take up 1.3GB
# of GPU memory": Hugging Face Transformers, "Model training anatomy".
GPU = 1_300_000_000

# Resident memory of Python after the imports of the training library, torch 2.13 for CPU: 393 MiB, measured
# on Linux, x86-64.
CPU = 412_000_000


def reserve(gpu: bool) -> int:
    """Bytes that a process keeps for itself, on its GPU or in the host's memory."""
    return GPU if gpu else CPU
