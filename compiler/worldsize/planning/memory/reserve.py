"""What a process takes beside its training: its libraries, and a GPU's context."""

from __future__ import annotations

from worldsize.planning.memory.setup import Setup

# The CUDA context with its kernels, beside which NCCL's buffers are small. "The kernels alone take up 1.3GB
# of GPU memory": Hugging Face Transformers, "Model training anatomy".
GPU = 1_300_000_000

# Resident memory on a CPU, measured with torch 2.13 and MLflow 3.15 on Linux, x86-64, by training a model of
# a few thousand weights. Any rank: Python, torch with its kernels and threads, gloo. Only rank 0: MLflow with
# its client of a tracking server, and what torch.export and MLflow import to save a model.
TORCH = 412_000_000
TRACKING = 124_000_000
EXPORT = 43_000_000
DEEPSPEED = 41_000_000  # what it imports beside these; rank 0 with it had 620 MB


def reserve(setup: Setup) -> int:
    """Bytes of a process on its GPU, or in the host's memory of rank 0, which takes the most."""
    if setup.gpu:
        return GPU
    return TORCH + TRACKING + EXPORT + (DEEPSPEED if setup.strategy == "deepspeed" else 0)
