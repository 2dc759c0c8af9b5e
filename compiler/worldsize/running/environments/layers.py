"""Virtual environments over this Python's packages, written as a few files in under a millisecond.

A layer sees its own packages first, then those of the layers below it, then those of this Python. When pip
installs into a layer, it finds the packages below it installed, and adds only the others to the layer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import util
from pathlib import Path

from worldsize.base import untrusted

BELOW = "worldsize-layers.pth"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
NAMES = ("python", "python3", f"python{VERSION}")
_OWN_PYTHON = re.compile(
    rf"(?<![\w./-]){re.escape(str(Path(sys.executable).parent))}/"
    rf"({'|'.join(map(re.escape, NAMES))})(?![\w./-])"
)
START = "start"  # beside the ``bin`` of copied programs: what Python imports first
SITECUSTOMIZE = Path(__file__).with_name("step_sitecustomize.py")

_ISOLATED = (
    "import os, sys; sys.flags.ignore_environment and os.path.exists({0!r})"
    " and exec(open({0!r}, encoding='utf-8').read(), {{'__name__': 'isolated'}})"
)

# pip's own script would contain the path of one layer in its first line.
_PIP = '#!/bin/sh\nexec "$VIRTUAL_ENV/bin/python" -m pip "$@"\n'
# conda changes the environment that is activated, which is not a layer.
_CONDA = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    install|update|upgrade|remove|uninstall)
      echo "$(basename -- "$0") $word is refused: it would change the environment that Worldsize runs in." >&2
      echo "Use pip, which installs into the step's own layer; list the package in the conda file of the" >&2
      echo "step's environment; or say --environment docker." >&2
      exit 1 ;;
    run) break ;;
  esac
done
exec {program} "$@"
"""
# uv takes the first Python without a layer for the system's.
_UV = """#!/bin/sh
case " $* " in
  *" --system "*) UV_PYTHON="$WORLDSIZE_LAYER/bin/python"; export UV_PYTHON ;;
esac
for word in "$@" ${{UV_PYTHON:+"$UV_PYTHON"}}; do
  value="${{word#--*=}}"
  case " $* :$(cd -- "$value" 2>/dev/null && pwd -P || echo "$value")" in
    *" pip "*:{read_only})
      echo "uv is refused: $word is part of the Python that Worldsize runs in. Leave it out:" >&2
      echo "what uv installs then goes into the step's own layer." >&2
      exit 1 ;;
  esac
done
exec {program} "$@"
"""
_STAND_INS = {"conda": _CONDA, "mamba": _CONDA, "micromamba": _CONDA, "uv": _UV}
_PORTABLE = b"#!/usr/bin/env python\n"
# A user's settings of these variables could make an installer install outside of the layer.
OVERRIDES = {
    **dict.fromkeys(("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON"), ""),
    "PIP_USER": "0",
    "PIP_REQUIRE_VIRTUALENV": "1",  # another Python of this machine has no layer over it
    "PIP_BREAK_SYSTEM_PACKAGES": "0",
    "UV_PYTHON": "",
    "UV_SYSTEM_PYTHON": "0",
    "UV_BREAK_SYSTEM_PACKAGES": "0",
}


def make_layer(folder: Path, below: Sequence[Path] = ()) -> None:
    """Make an empty layer that sees the packages of the layers ``below``, the nearest first."""
    packages, bin_folder = packages_folder(folder), folder / "bin"
    packages.mkdir(parents=True)
    bin_folder.mkdir()
    base = Path(getattr(sys, "_base_executable", None) or sys.executable)
    for name in NAMES:
        (bin_folder / name).symlink_to(base)
    version = ".".join(map(str, sys.version_info[:3]))
    (folder / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n", encoding="utf-8"
    )
    folders = [*(packages_folder(folder) for folder in below), *list_parents()]
    # `addsitedir` reads the path files in them too: without, what is installed in place is not found.
    lines = [f"import site; site.addsitedir({str(folder)!r})" for folder in folders]
    lines.insert(0, _ISOLATED.format(str(SITECUSTOMIZE)))
    (packages / BELOW).write_text("\n".join([*lines, *_bundled_pip(), ""]), encoding="utf-8")


def packages_folder(folder: Path) -> Path:
    """The folder of the packages of a layer."""
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix"
    return Path(sysconfig.get_path("purelib", scheme, {"base": str(folder)}))


def list_parents() -> list[Path]:
    """The folders of the packages that this Python sees."""
    folders = [Path(folder) for folder in site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        folders.insert(0, Path(site.getusersitepackages()))
    return [folder for folder in folders if folder.is_dir()]


def list_read_only() -> list[Path]:
    """The folders of this Python that steps must not change."""
    return [Path(sys.executable).parent, *list_parents(), Path(sysconfig.get_path("stdlib"))]


def list_installed() -> frozenset[str]:
    """The entries of the folders of this Python's packages and programs."""
    paths = set[str]()
    for folder in (Path(sys.executable).parent, *list_parents()):
        with contextlib.suppress(OSError):
            paths.update(str(folder / name) for name in os.listdir(folder) if name != "__pycache__")  # noqa: PTH208
    return frozenset(paths)


def redirect_interpreter(command: str, layer: Path) -> str:
    """Replace the path of this Python in a command by that of a layer's Python.

    Python that ignores variables (``-I``, ``-E``) would not hand over to the layer otherwise.
    """
    if shlex.quote(str(layer)) != str(layer):  # the command may not quote the path of this Python
        return command
    return _OWN_PYTHON.sub(lambda match: f"{layer}/bin/{match[1]}", command)


def layer_variables(environment: Mapping[str, str], folders: Sequence[Path]) -> dict[str, str]:
    """The variables of a process that runs in a layer; the process's PATH replaces that of this machine.

    The ``folders`` are the layer and those below it, the nearest first, and others with programs in ``bin``.
    """
    bins = [*(str(folder / "bin") for folder in folders), str(Path(sys.executable).parent)]
    path = environment.get("PATH", os.environ.get("PATH", os.defpath))
    starts = [str(folder / START) for folder in folders if (folder / START).is_dir()]
    modules = environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return {
        **OVERRIDES,
        **environment,
        "PATH": os.pathsep.join([*bins, *filter(None, [path])]),
        **({"PYTHONPATH": os.pathsep.join([*starts, *filter(None, [modules])])} if starts else {}),
        "VIRTUAL_ENV": str(folders[0]),
        "WORLDSIZE_LAYER": str(folders[0]),
        "WORLDSIZE_READ_ONLY": os.pathsep.join(map(str, list_read_only())),
        "WORLDSIZE_PYTHON": f"{sys.prefix}{os.pathsep}{VERSION}",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUSERBASE": str(folders[0] / "user"),
    }


def free_scripts(bin_folder: Path, interpreter: Path) -> None:
    """Make the scripts of a layer use the first ``python`` on PATH.

    Otherwise they name the interpreter that installed them, which is wrong once the layer is moved or used
    below another one.
    """
    for path, text in _list_scripts(bin_folder, interpreter):
        path.write_bytes(text)


def borrow_scripts(folder: Path) -> None:
    """Copy the programs of this Python's packages, such as ``torchrun``, to ``bin`` of a folder.

    Any layer's Python can run them. Beside them are programs that hand over to a layer, and that restrict
    other installers to one.
    """
    executable, bin_folder = Path(sys.executable), folder / "bin"
    bin_folder.mkdir(parents=True)
    for path, text in _list_scripts(executable.parent, executable):
        if not path.name.startswith(("pip", "python", "activate")):
            _write_program(bin_folder / path.name, text)
    for name in ("pip", "pip3", f"pip{VERSION}"):
        _write_program(bin_folder / name, _PIP.encode())
    for name, program in find_installers().items():
        read_only = '|*" pip "*:'.join(_read_only_patterns())
        stand_in = _STAND_INS[name].format(program=shlex.quote(program), read_only=read_only)
        _write_program(bin_folder / name, stand_in.encode())
    # A step's Python would make the cache readable for all, as far as the user's umask lets it.
    (folder / START / "__pycache__").mkdir(parents=True)
    shutil.copyfile(SITECUSTOMIZE, folder / START / "sitecustomize.py")


def _read_only_patterns() -> list[str]:
    """Shell patterns of the folders that steps must not change: this Python's prefix and its folders."""
    places = [path for folder in (Path(sys.prefix), *list_read_only()) for path in (folder, folder.resolve())]
    words = [shlex.quote(str(path)) for path in places]
    return [*words, *(f"{folder}/*" for folder in words[2:])]


def find_installers() -> dict[str, str]:
    """The installers of this machine that must be restricted to a layer, by name."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {name: program for name in _STAND_INS if (program := shutil.which(name, path=path)) is not None}


def _write_program(path: Path, text: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(text)
    path.chmod(0o700)


def _list_scripts(bin_folder: Path, interpreter: Path) -> Iterator[tuple[Path, bytes]]:
    """The scripts of an interpreter in the same folder, with portable first lines."""
    with os.scandir(bin_folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    for path in (bin_folder / name for name in names):
        with untrusted.open_file(path) as file:
            start = file.read(2)
            freed = make_portable(start + file.read(), interpreter) if start == b"#!" else None
        if freed is not None:
            yield path, freed


def make_portable(text: bytes, interpreter: Path) -> bytes | None:
    """Make a script find Python on PATH; None for a script of another interpreter.

    If the path is too long for a first line, installers write three lines: ``#!/bin/sh``, one that starts
    the interpreter, and one that ends what is a string for Python.
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
    """The path of the pip that comes with Python, if none is installed."""
    if util.find_spec("pip") is not None:
        return []
    spec = util.find_spec("ensurepip")
    folder = Path(spec.origin).parent / "_bundled" if spec and spec.origin else None
    return [str(path) for path in sorted(folder.glob("pip-*.whl"))] if folder and folder.is_dir() else []


@cache
def describe_interpreter() -> tuple[str, str, str]:
    """This Python's prefix, its version, and the names and versions of its packages.

    Packages installed for development count by their version too: a step that uses such code has it in its
    code folder, or has to be run with ``--force``.
    """
    # The prefix, because the program has several names.
    return sys.prefix, sys.version, hashlib.sha256("\n".join(_list_distributions()).encode()).hexdigest()


def installed_version(package: str) -> str | None:
    """The version of an installed package by its folder's name: ``importlib.metadata`` takes 20 ms."""
    starts = f"{package}-"
    names = [name for name in _list_distributions() if name.startswith(starts)]
    return names[0].removeprefix(starts).rpartition(".")[0] if names else None


@cache
def _list_distributions() -> list[str]:
    folders = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    names = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)}  # noqa: PTH112, PTH208
    return sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))
