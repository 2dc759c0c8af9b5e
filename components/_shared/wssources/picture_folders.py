"""Pictures in one folder per class: what is wrong with the folders."""

from __future__ import annotations

from pathlib import Path

from wsshards.errors import UserError
from wssources.request import Request
from wssources.split_settings import part_of_file


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
    check_part_names(request, filled)
    for folder in sorted(request.root.iterdir()):
        if folder.is_dir() and not folder.name.startswith(".") and folder.name not in filled:
            raise UserError(
                f"class folder `{folder.name}` holds no picture", "add pictures or remove the folder"
            )


def check_part_names(request: Request, classes: set[str]) -> None:
    """Refuse class folders that are all named for a part, such as `train` and `val`; raises UserError."""
    if len(classes) > 1 and all(part_of_file(f"{name}/") is not None for name in classes):
        names = " and ".join(f"`{name}`" for name in sorted(classes))
        raise UserError(
            f"the folders of `{request.name}` are {names}, which are names of parts and not of classes",
            "take the parts from the folders with `split: given`, or name one folder in `source`",
        )
