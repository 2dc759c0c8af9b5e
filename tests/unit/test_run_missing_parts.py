"""What a failure says of a GPU or a package that is missing, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.running.engine.failures import explain_missing_gpus, explain_missing_package
from worldsize.running.model.assets import AssetMap, read_asset_map

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
        ("transformers", "run `pip install 'worldsize[transformers]'`"),
        ("einops", "help: install it, or"),
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


@pytest.mark.parametrize(
    ("text", "what", "type_", "lines"),
    [
        (
            "azureml:houses:9",
            "data",
            "uri_file",
            [
                "`az ml data create --name houses --version 9 --type uri_file --path ./houses`",
                '`client.data.create_or_update(Data(name="houses", version="9", type="uri_file",',
                ' path="./houses"))`',
            ],
        ),
        ("azureml:houses@latest", "data", None, ["--name houses --type uri_folder --path ./houses`"]),
        (
            "azureml:net:2",
            "data",
            "mlflow_model",
            [
                "`az ml model create --name net --version 2 --type mlflow_model",
                "client.models.create_or_update(Model(",
            ],
        ),
        ("azureml:prep:1", "component", None, ["`az ml component create -f component.yml`"]),
        (
            "azureml://datastores/blob/paths/new",
            "data",
            None,
            ["write `azureml://datastores/blob/paths/new: ./new` under `assets:` of the `worldsize.yml`"],
        ),
    ],
)
def test_what_a_workspace_lacks_is_registered_there(
    text: str, what: str, type_: str | None, lines: list[str]
) -> None:
    help_ = AssetMap(in_workspace=True).missing(text, what, type_)
    assert [line for line in lines if line not in help_] == []
    assert "--map" not in help_  # an option of `run`


def test_a_job_of_the_local_workspace_is_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "serve" / "jobs" / "calm_rice"
    folder.mkdir(parents=True)
    assert "register it" in read_asset_map(folder / "pipeline.yml").missing("azureml:houses:9")
    assert "--map" in read_asset_map(tmp_path / "pipeline.yml").missing("azureml:houses:9")
