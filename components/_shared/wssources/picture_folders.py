"""Pictures in one folder per class: what is wrong with the folders."""

from __future__ import annotations

from pathlib import Path

from wsshards.errors import UserError
from wssources.request import Request


def find_class(request: Request, file: Path) -> str:
    """Return the class of a picture: the name of the first folder on its path."""
    return file.relative_to(request.root).parts[0]


def check_folders(request: Request) -> None:
    """Refuse a picture outside of a class folder, and a class without pictures; raises UserError."""
    filled: set[str] = set()
    for file in request.files:
        if request.root in {file, file.parent}:
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
