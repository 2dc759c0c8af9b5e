"""What a failure says of a GPU or a package that is missing, and of nothing else."""

from __future__ import annotations

import pytest

from worldsize.running.engine.failures import explain_missing_gpus, explain_missing_package

NCCL = "it asks for NCCL, which needs GPUs, and this machine has none"
GPU = "it asks for a GPU, and this machine has none"
LINE = "ModuleNotFoundError: No module named '{}'"


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


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("numpy", "run `pip install 'worldsize[run]'`"),
        ("sklearn.svm", "run `pip install 'worldsize[run]'`"),
        ("tensorflow", "run `pip install 'worldsize[tensorflow]'`"),
        ("transformers", "help: install it, or"),
    ],
)
def test_the_package_is_named_with_what_installs_it(module: str, advice: str) -> None:
    found = explain_missing_package(["Traceback", '  File "a.py", line 1', LINE.format(module)])
    assert found is not None
    assert found[0] == f"its Python has no module `{module}`"
    assert advice in found[1]


@pytest.mark.parametrize("lines", [[], [LINE.format("numpy"), "going on without"], ["ImportError: numpy"]])
def test_what_a_script_got_over_is_not_the_reason(lines: list[str]) -> None:
    assert explain_missing_package(lines) is None


@pytest.mark.parametrize(
    "line",
    [
        "python: Error while finding module for 'a.b' (ModuleNotFoundError: No module named 'a.b')",
        "error: `score.py` cannot be used: ModuleNotFoundError: No module named 'a.b'",
    ],
)
def test_a_program_that_passes_the_error_on_is_understood(line: str) -> None:
    found = explain_missing_package(["Traceback", line])
    assert found is not None
    assert found[0] == "its Python has no module `a.b`"
