"""What libraries say where a GPU is missing is explained, and nothing else is."""

from __future__ import annotations

import pytest

from worldsize.running.engine.failures import explain_missing_gpus

NCCL = "it asks for NCCL, which needs GPUs, and this machine has none"
GPU = "it asks for a GPU, and this machine has none"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("RuntimeError: Distributed package doesn't have NCCL built in", NCCL),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", NCCL),
        ("\t [[NcclAllReduce]] [Op:__inference__all_reduce_27]", NCCL),
        ("AssertionError: Torch not compiled with CUDA enabled", GPU),
        ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", GPU),
        (
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
            GPU,
        ),
        ("RuntimeError: No CUDA GPUs are available", GPU),
        ("RuntimeError: CUDA error: no CUDA-capable device is detected", GPU),
        ("RuntimeError: Attempting to deserialize on CUDA but torch.cuda.is_available() is False. If", GPU),
        ("MisconfigurationException: No supported gpu backend found!", GPU),
        ("ValueError: invalid literal for int() with base 10: 'nccl'", None),
        ("NCCL_DEBUG=INFO was set", None),
        ("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.", None),
    ],
)
def test_the_words_of_libraries(line: str, words: str | None) -> None:
    lines = ["Traceback (most recent call last):", line]
    found = explain_missing_gpus(lines, ())
    assert (found[0] if found else None) == words
    assert found is None or found[1].startswith("help: ")
    assert explain_missing_gpus(lines, ("0",)) is None  # then the reason is another
    assert explain_missing_gpus([*lines, "error: the plan is for 4 GPUs an instance"], ()) is None
