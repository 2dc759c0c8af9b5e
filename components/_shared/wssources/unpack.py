"""Turns a folder that describes its data, an `MLTable` or a saved data set, into plain files elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wssources import mltable, saved_dataset
from wssources.input_error import blame_input
from wssources.split_settings import SplitSettings

Fetch = Callable[[str, Path], None]
"""Downloads what an address names into a folder."""


@dataclass(frozen=True)
class Unpacked:
    """Plain files that were made.

    Attributes:
        root: the folder of the files, which has the name of the original one.
        column_types: kinds of columns that the description says.
        complete: whether all rows are in the files.
        given: whether the files are named for the parts of the data.
    """

    root: Path
    column_types: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    given: bool = False

    def column_kinds(self, asked: Mapping[str, str]) -> dict[str, str]:
        """Return the kinds of columns that the description says, and before them those asked for."""
        return {**self.column_types, **asked}

    def divide(self, split: SplitSettings | None) -> SplitSettings | None:
        """Return the split of the rows: as given, if files are named for parts and no column divides them."""
        if not self.given or (split is not None and (split.columns or split.by_time)):
            return split
        return (split or SplitSettings())._replace(given=True)


def is_described(root: Path, kind: str) -> bool:
    """Return whether a folder holds a description of its data, which is to be followed.

    Args:
        root: file or folder of the data.
        kind: the format that was asked for; any but `auto` reads the files of an `MLTable` as they are.
    """
    return saved_dataset.is_saved(root) or (kind == "auto" and (root / mltable.FILE).is_file())


def unpack(
    root: Path, folder: Path, *, fetch: Fetch | None = None, most_bytes: int | None = None
) -> Unpacked:
    """Write the rows of a described folder as plain files below `folder`; unchanged files become links.

    Args:
        root: the described folder.
        folder: an empty one.
        fetch: downloads files with an address; without it they raise ElsewhereError.
        most_bytes: about how much is written; None for all.

    Raises:
        UserError: the description is wrong or asks for what is not supported, or a file cannot be read.
        mltable.ElsewhereError: a file has an address, and there is no `fetch`.
        ImportError: pyarrow is needed, and is missing.
    """
    target = folder / (root.name or "data")
    target.mkdir(parents=True)
    if saved_dataset.is_saved(root):
        written = saved_dataset.unpack_dataset(root, target, most_bytes)
        return Unpacked(target, complete=written.complete, given=written.given)
    from wssources.mltable_files import unpack_table  # most data is no table of this kind

    with blame_input("mltable-path-missing"):
        table = mltable.read_table_file(root)
        rows = unpack_table(table, target, folder, fetch, most_bytes)
    return Unpacked(target, rows.column_kinds, rows.complete)
