"""A copy of a script's folder in which a proof runs it, so that nothing of the user's is written to."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path

from worldsize.scripts.module import parse_text

LEFT_OUT = frozenset({".git", ".venv", "venv", "env", "__pycache__", ".worldsize", "mlruns", "node_modules"})
COPIED_BYTES = 256 << 20  # of a folder; what is beyond is linked: data, which a training only reads
ROOM = "a/b/c"  # above a copy, for what a script reads from `../`


def copy_folder(source: Path, target: Path, script: str, text: bytes) -> Path:
    """Copy the folder of a script, smallest entries first, and write ``text`` in place of the script.

    Files and folders that would bring the copy over :data:`COPIED_BYTES` become links.

    Returns:
        The script in the copy.

    Raises:
        OSError: The folder cannot be read, or there is no space.
    """
    target.mkdir(parents=True)
    sizes = sorted(
        (_size(each), each) for each in source.iterdir() if each.name not in LEFT_OUT and each.name != script
    )
    left = COPIED_BYTES
    for size, entry in sizes:
        left -= size
        copy = target / entry.name
        if left < 0 or not (entry.is_file() or entry.is_dir()):
            copy.symlink_to(entry.absolute())
        elif entry.is_dir():
            shutil.copytree(entry, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy2(entry, copy)
    path = target / script
    path.write_bytes(text)
    return path


def copy_outside(source: Path, target: Path, text: str) -> None:
    """Copy what a script names outside of its folder, as in ``open("../data.csv")``, to where it looks.

    Raises:
        OSError: It cannot be read, or there is no space.
    """
    top = target.parents[ROOM.count("/")]
    for name in sorted(_list_outside(text)):
        entry, copy = source / name, Path(os.path.normpath(target / name))
        if not entry.exists() or copy.exists() or top not in copy.parents:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if _size(entry) > COPIED_BYTES or not (entry.is_file() or entry.is_dir()):
            copy.symlink_to(entry.resolve())
        elif entry.is_dir():
            shutil.copytree(entry, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy2(entry, copy)


def _list_outside(text: str) -> set[str]:
    """The texts of a script that may be a path from the folder above: ``"../data.csv"``."""
    return {
        node.value
        for node in ast.walk(parse_text(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith("../") and len(node.value) < 200 and node.value.strip("./")
        if "\0" not in node.value
    }


def _size(entry: Path) -> int:
    """The bytes of a file or of a folder's files; above the limit it stops to count."""
    if entry.is_symlink() or not entry.is_dir():
        return entry.lstat().st_size
    total = 0
    for folder, folders, files in os.walk(entry):
        folders[:] = [each for each in folders if each not in LEFT_OUT]
        total += sum((Path(folder) / each).lstat().st_size for each in files)
        if total > COPIED_BYTES:
            break
    return total
