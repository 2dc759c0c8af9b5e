"""Pictures in one folder per class: what is wrong with the folders."""

from __future__ import annotations

import os
from pathlib import Path

from wsshards.errors import UserError
from wssources.request import Request


def find_class(request: Request, file: Path) -> str:
    """Return the class of a picture: the name of the first folder on its path."""
    return _name_inside(request, file).partition(os.sep)[0]


def _name_inside(request: Request, file: Path) -> str:
    # There may be millions of files, and to compare paths takes ten times as long as to cut texts.
    root, name = os.fspath(request.root), os.fspath(file)
    return name if root == "." else name[len(os.path.join(root, "")) :]  # noqa: PTH118


def check_folders(request: Request) -> None:
    """Refuse a picture outside of a class folder, and a class without pictures; raises UserError."""
    filled: set[str] = set()
    for file in request.files:
        if os.sep not in _name_inside(request, file):
            raise UserError(
                f"picture `{request.show(file)}` is in no class folder",
                "put each picture in a folder named for its class",
            )
        name = find_class(request, file)
        filled.add(name)
        if not name.isprintable() and any("\ud800" <= character <= "\udfff" for character in name):
            raise UserError(f"the name of class folder `{name}` is not UTF-8", "rename the folder")
    for folder in sorted(request.root.iterdir()):
        if folder.is_dir() and not folder.name.startswith(".") and folder.name not in filled:
            raise UserError(
                f"class folder `{folder.name}` holds no picture", "add pictures or remove the folder"
            )
