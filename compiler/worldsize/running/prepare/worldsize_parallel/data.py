"""What there is to do: the input as files or as a table, parted into mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import batches, mltable
from .batches import Batch
from .settings import DriverError, Settings


@dataclass(frozen=True)
class Work:
    """Mini-batches over the items of the input: files, or the rows of a table."""

    batches: tuple[Batch, ...]
    files: tuple[str, ...] = ()
    frame: Any = None  # a pandas DataFrame

    @property
    def noun(self) -> str:
        """What the items are."""
        return "files" if self.frame is None else "rows"

    @property
    def items(self) -> int:
        """How many there are."""
        return sum(len(batch.positions) for batch in self.batches)

    def content(self, batch: Batch) -> Any:
        """What ``run`` is called with: a list of paths, or a DataFrame whose rows count from 0."""
        if self.frame is None:
            return [self.files[position] for position in batch.positions]
        return self.frame.iloc[list(batch.positions)].reset_index(drop=True)


def load(settings: Settings) -> Work:
    """Find the input and part it.

    Raises:
        DriverError: There is nothing, or it cannot be read or parted as asked.
    """
    path, keys = settings.input_data, settings.partition_keys
    if not path.exists():
        raise DriverError(f"`input_data` is `{path}`, which does not exist")
    definition = mltable.definition(path) if settings.input_type == "mltable" else None
    if definition is not None and definition.is_table:
        return _rows(settings, definition)
    if definition is not None and definition.steps:
        raise DriverError(
            f"`{definition.steps[0][0]}` in `{mltable.FILE}` has no table to work on: read one first"
        )
    files = list(definition.files) if definition is not None else batches.files_below(path)
    if not files:
        raise DriverError(f"there is nothing to do: `{path.name}` holds no file")
    if keys:
        root = definition.folder if definition is not None else path
        parted = batches.by_key(keys, (batches.folder_key(file, root, keys) for file in files))
    else:
        parted = batches.by_count(len(files), settings.file_count)
    return Work(tuple(parted), tuple(files))


def _rows(settings: Settings, definition: mltable.Definition) -> Work:
    frame, keys = mltable.table(definition), settings.partition_keys
    if not len(frame):
        raise DriverError("there is nothing to do: the table has no row")
    missing = [key for key in keys if key not in frame.columns]
    if missing:
        known = ", ".join(f"`{name}`" for name in frame.columns)
        raise DriverError(f"`partition_keys` names `{missing[0]}`, but the columns are {known}")
    if keys:
        columns = [frame[key].tolist() for key in keys]
        parted = batches.by_key(keys, zip(*columns, strict=True))
    else:
        total = sum(Path(file).stat().st_size for file in definition.files)
        parted = batches.by_count(len(frame), batches.rows_of(settings.byte_count, len(frame), total))
    return Work(tuple(parted), frame=frame)
