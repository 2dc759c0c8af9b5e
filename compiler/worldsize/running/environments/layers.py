"""Virtual environments laid over this Python's packages, made by hand: a few files, in under a millisecond.

A layer sees its own packages first, then those of the layers below it, then those of the Python that runs
this. pip, told to install in it, finds what is below satisfied, and puts what is not into the layer alone.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib import util
from pathlib import Path

BELOW = "worldsize-layers.pth"
NAMES = ("python", "python3", f"python{sys.version_info.major}.{sys.version_info.minor}")

# pip's own script holds the layer's path in its first line, which may be longer than the system allows.
_PIP = '#!/bin/sh\nexec "$(dirname -- "$0")/python" -m pip "$@"\n'
_PORTABLE = b"#!/usr/bin/env python\n"


def lay(folder: Path, below: Sequence[Path] = ()) -> None:
    """Make an empty layer.

    Args:
        folder: where; it must not exist.
        below: layers whose packages it sees, the nearest first.

    Raises:
        OSError: it cannot be made.
    """
    packages, bin_folder = packages_of(folder), folder / "bin"
    packages.mkdir(parents=True)
    bin_folder.mkdir()
    base = Path(getattr(sys, "_base_executable", None) or sys.executable)
    for name in NAMES:
        (bin_folder / name).symlink_to(base)
    for name in ("pip", NAMES[1].replace("python", "pip")):
        script = bin_folder / name
        script.write_text(_PIP, encoding="utf-8")
        script.chmod(0o755)
    version = ".".join(map(str, sys.version_info[:3]))
    (folder / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n", encoding="utf-8"
    )
    folders = [*(packages_of(each) for each in below), *parents()]
    # `addsitedir` reads the path files in them too: without, what is installed in place is not found.
    lines = [f"import site; site.addsitedir({str(each)!r})" for each in folders]
    (packages / BELOW).write_text("\n".join([*lines, *_bundled_pip(), ""]), encoding="utf-8")


def packages_of(folder: Path) -> Path:
    """Where the packages of a layer lie."""
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix"
    return Path(sysconfig.get_path("purelib", scheme, {"base": str(folder)}))


def parents() -> list[Path]:
    """Where the packages lie that this Python sees."""
    found = [Path(each) for each in site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        found.insert(0, Path(site.getusersitepackages()))
    return [each for each in found if each.is_dir()]


def variables(environment: Mapping[str, str], folders: Sequence[Path]) -> dict[str, str]:
    """The variables of a process that runs in a layer.

    Args:
        environment: the process's own; a PATH in it takes the place of that of this machine.
        folders: the layer and those below it, the nearest first, and whatever else has programs in ``bin``.
    """
    bins = [*(str(folder / "bin") for folder in folders), str(Path(sys.executable).parent)]
    path = environment.get("PATH", os.environ.get("PATH", os.defpath))
    return {
        # A user's own settings of these would lead pip, and what it installs, out of the layer.
        **dict.fromkeys(("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"), ""),
        **environment,
        "PATH": os.pathsep.join([*bins, *filter(None, [path])]),
        "VIRTUAL_ENV": str(folders[0]),
        "PYTHONNOUSERSITE": "1",
    }


def free_scripts(bin_folder: Path, interpreter: Path) -> None:
    """Have the scripts of a layer run by whichever ``python`` comes first on PATH.

    They name the interpreter that installed them. A layer that is moved, or has another above it, must not.
    """
    for path, text in _scripts(bin_folder, interpreter):
        path.write_bytes(text)


def borrow_scripts(bin_folder: Path) -> None:
    """Copies of the programs of this Python's packages, such as ``torchrun``, for any layer's Python."""
    own = Path(sys.executable)
    bin_folder.mkdir(parents=True)
    for path, text in _scripts(own.parent, own):
        if not path.name.startswith(("pip", "python", "activate")):
            copy = bin_folder / path.name
            copy.write_bytes(text)
            copy.chmod(0o755)


def _scripts(bin_folder: Path, interpreter: Path) -> Iterator[tuple[Path, bytes]]:
    """The scripts that an interpreter beside them runs, as they are to be."""
    with os.scandir(bin_folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for name in names:
        path = bin_folder / name
        with path.open("rb") as file:
            text = file.read(2)
            if text != b"#!":
                continue
            text += file.read()
        freed = portable(text, interpreter)
        if freed is not None:
            yield path, freed


def portable(text: bytes, interpreter: Path) -> bytes | None:
    """A script whose first line leaves the choice of Python to PATH; None for any other script.

    Where the path is too long for a first line, installers write three: ``#!/bin/sh``, one that hands over
    to the interpreter, and one that ends what is a text for Python.
    """
    first, _, rest = text.partition(b"\n")
    beside = str(interpreter.parent).encode() + b"/python"
    if first.startswith(b"#!" + beside):
        return _PORTABLE + rest
    second, _, after = rest.partition(b"\n")
    third, _, body = after.partition(b"\n")
    if second.startswith(b"'''exec'") and beside in second and third.strip() == b"' '''":
        return _PORTABLE + body
    return None


def _bundled_pip() -> list[str]:
    """A path to the pip that comes with Python, where none is installed."""
    if util.find_spec("pip") is not None:
        return []
    spec = util.find_spec("ensurepip")
    folder = Path(spec.origin).parent / "_bundled" if spec and spec.origin else None
    return [str(path) for path in sorted(folder.glob("pip-*.whl"))] if folder and folder.is_dir() else []
