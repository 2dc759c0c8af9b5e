"""What a rank under mpirun knows of itself, and of the Horovod beside it, before torch is loaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from wsshards.errors import UserError
from wstrain.launch.environment import Launch, read_mpi_environment, read_pytorch_environment
from wstrain_horovod.launch import expect_horovod

MPI = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}


def test_what_mpirun_sets_is_read() -> None:
    assert read_mpi_environment(MPI | {"OMPI_COMM_WORLD_NODE_RANK": "1"}) == Launch(
        rank=5, local_rank=1, world_size=8
    )
    assert read_mpi_environment({}) == Launch(rank=0, local_rank=0, world_size=1)
    # An image or a user may have left torch's variables behind; mpirun's are the launcher's own.
    assert read_mpi_environment(MPI | {"RANK": "0", "WORLD_SIZE": "1"}).world_size == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"OMPI_COMM_WORLD_RANK": ""}, "the launcher did not set `OMPI_COMM_WORLD_RANK`"),
        ({"OMPI_COMM_WORLD_RANK": "8"}, "`OMPI_COMM_WORLD_RANK` is 8 but `OMPI_COMM_WORLD_SIZE` is 8"),
        ({"OMPI_COMM_WORLD_SIZE": "x"}, "`OMPI_COMM_WORLD_SIZE` is `x`, which is not a whole number"),
    ],
)
def test_a_broken_contract_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_mpi_environment(MPI | changes)


@pytest.mark.parametrize(
    ("env", "message", "component"),
    [
        ({"RANK": "0", "WORLD_SIZE": "4"}, "`WORLD_SIZE` says that 4 processes", "train_ddp"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'}, "names 2 workers", "train_tensorflow"),
    ],
)
def test_a_rank_of_another_launcher_is_told_which_component_suits(
    env: dict[str, str], message: str, component: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_mpi_environment(env)
    assert "`OMPI_COMM_WORLD_SIZE` is not set" in caught.value.message
    assert caught.value.help == f"use `distribution: {{type: mpi}}` for this component, or `{component}`"


def test_torch_s_reader_names_the_component_for_mpi() -> None:
    with pytest.raises(UserError, match="`RANK` and `WORLD_SIZE` are not set") as caught:
        read_pytorch_environment(MPI)
    assert caught.value.help is not None
    assert caught.value.help.endswith("or `train_horovod`")


def lay_out(folder: Path, horovod: dict[str, str] | None, torch: str) -> None:
    """Two installed packages, as far as anyone looks at them without loading them."""
    for name, file, text in (
        ("horovod", "metadata.json", json.dumps(horovod)),
        ("torch", "version.py", f"__version__ = '{torch}'\n"),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / file).write_text(text)
        (folder / f"{name}-1.dist-info").mkdir()
        (folder / f"{name}-1.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")


@pytest.mark.parametrize(
    ("horovod", "message"),
    [
        ({"pytorch": "2.12.0"}, "Horovod was built for torch 2.12.0 but torch 2.13.0.cu130 is installed"),
        ({"tensorflow": "2.15.0"}, "the installed Horovod was built without PyTorch"),
    ],
)
def test_a_horovod_that_does_not_fit_is_named(
    horovod: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, horovod, "2.13.0+cu130")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(UserError, match=message) as caught:
        expect_horovod()
    assert "python build_horovod.py" in (caught.value.help or "")


def test_the_horovod_that_fits_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, {"pytorch": "2.13.0+cu130"}, "2.13.0+cu130")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    expect_horovod()


def test_without_horovod_the_build_is_advised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(UserError, match="Horovod is not installed"):
        expect_horovod()
