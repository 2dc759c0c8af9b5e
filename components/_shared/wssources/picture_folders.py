"""Pictures in one folder per class: what is wrong with the folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wsshards.errors import UserError
from wssources.request import Request
from wssources.split_settings import part_of_name


def find_class(request: Request, file: Path) -> str:
    """Return the class of a picture: the first folder on its path, or the one below that of its part."""
    return _split_path(request, file)[1 if _is_given(request) else 0]


def _split_path(request: Request, file: Path) -> list[str]:
    # There may be millions of files, and to compare paths takes ten times as long as to cut texts.
    root, name = os.fspath(request.root), os.fspath(file)
    return (name if root == "." else name[len(os.path.join(root, "")) :]).split(os.sep)  # noqa: PTH118, PTH206


def check_folders(request: Request) -> None:
    """Refuse a picture outside of a class folder, and a class without pictures; raises UserError."""
    depth = 2 if _is_given(request) else 1
    filled: set[tuple[str, ...]] = set()
    for file in request.files:
        parts = tuple(_split_path(request, file))
        if len(parts) <= depth:
            below = " of its part, such as `train/cat`" if depth == 2 else ""
            raise UserError(
                f"picture `{request.show(file)}` is in no class folder{below}",
                "put each picture in a folder named for its class",
            )
        filled.add(parts[:depth])
        name = parts[depth - 1]
        if not name.isprintable() and any("\ud800" <= character <= "\udfff" for character in name):
            raise UserError(f"the name of class folder `{name}` is not UTF-8", "rename the folder")
    if depth == 1:
        check_part_names(request, {parts[0] for parts in filled})
    for folder in _list_class_folders(request):
        parts = folder.relative_to(request.root).parts
        if parts not in filled:
            raise UserError(
                f"class folder `{'/'.join(parts)}` holds no picture", "add pictures or remove the folder"
            )


def _is_given(request: Request) -> bool:
    return request.split is not None and request.split.given


def _list_class_folders(request: Request) -> Iterator[Path]:
    folders = _list_folders(request.root)
    if not _is_given(request):
        yield from folders
        return
    for part in folders:
        if part_of_name(part.name) is not None:
            yield from _list_folders(part)


def _list_folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def check_part_names(request: Request, classes: set[str]) -> None:
    """Refuse class folders that are all named for a part, such as `train` and `val`; raises UserError."""
    if len(classes) > 1 and all(part_of_name(name) is not None for name in classes):
        names = " and ".join(f"`{name}`" for name in sorted(classes))
        raise UserError(
            f"the folders of `{request.name}` are {names}, which are names of parts and not of classes",
            "take the parts from the folders with `split: given`, or name one folder in `source`",
        )
