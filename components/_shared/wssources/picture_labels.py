"""Labels of pictures in a CSV file: a column of file names, and one or several of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import CLASSIFICATION
from wssources import row_faults
from wssources.formats import LABEL_FILE, MAX_CLASSES, PICTURES
from wssources.input_error import suggest
from wssources.name_lists import split_names
from wssources.part_counts import PartCounts
from wssources.request import REFUSE, Files, Request
from wssources.row_division import RowDivision, find_row_division
from wssources.split_settings import (
    UNDECIDED,
    SplitSettings,
    TimeBounds,
    divide_files,
    fixed_parts,
    refuse_window,
)
from wssources.table_plan import HEAD_BYTES, LABEL_HELP
from wssources.tasks import Decision, LabelValues, decide_task

FILE_COLUMNS = (
    "file",
    "filename",
    "file_name",
    "path",
    "filepath",
    "image",
    "image_id",
    "picture",
    "id",
    "name",
)
DEFAULT_LABEL = "label"


@dataclass(frozen=True)
class PictureLabels:
    """What a CSV says of pictures.

    Attributes:
        columns: names of the label columns.
        values: of each picture, by its path inside the data.
        files: paths of the pictures, in order.
        without: pictures that the CSV does not name.
        root: the folder of the data.
        parts: in which files or columns put pictures, by path; others are divided by hash.
        keys: what pictures are divided by, by path, if not by their content.
        bounds: of the time that divides them.
    """

    columns: tuple[str, ...]
    values: dict[str, tuple[str, ...]]
    files: list[str] | None
    without: int = 0
    root: Path = Path()
    parts: Mapping[str, int] = field(default_factory=dict)
    keys: Mapping[str, int] = field(default_factory=dict)
    bounds: TimeBounds | None = None

    def decide(self, task: str, called: str) -> Decision:
        """Return what is learned of the pictures; raises UserError if labels leave it open or do not fit."""
        labels = [LabelValues(name) for name in self.columns]
        for row in self.values.values():
            for label, cell in zip(labels, row, strict=True):
                label.add(cell)
        return decide_task(task, labels, sampled=False, called=called)

    def find_classes(self, decision: Decision) -> tuple[str, ...]:
        """Return the classes of a column that has several a row; nothing for other labels."""
        if not decision.several:
            return ()
        parts = (part.strip() for row in self.values.values() for part in row[0].split(decision.separator))
        classes = tuple(sorted({part for part in parts if part}))
        if len(classes) > MAX_CLASSES:
            raise UserError(
                f"label `{clip_text(self.columns[0])}` has more than {MAX_CLASSES:,} distinct classes",
                "name another column in `label`",
            )
        return classes

    def choose(self, request: Request) -> Request:
        """Return the request for the pictures that have a label, and print how many have none."""
        if self.without:
            print(f"{self.without:,} pictures have no row in the CSV of labels and are left out")
        return request._replace(files=Files(request.root, self.files or []))

    def find(self, file: Path) -> tuple[str, ...]:
        """Return the labels of a picture."""
        return self.values[self._path(file)]

    def find_part(self, file: Path) -> int:
        """Return the place in `SPLITS` that a picture is put in, or `UNDECIDED`."""
        return self.parts.get(self._path(file), UNDECIDED)

    def find_key(self, file: Path) -> int:
        """Return what a picture is divided by."""
        return self.keys[self._path(file)]

    def _path(self, file: Path) -> str:
        return file.relative_to(self.root).as_posix()

    @property
    def fixed(self) -> frozenset[int]:
        """The parts that files, columns or dates fill."""
        return fixed_parts(self.bounds, self.parts.values())

    def count(self, decision: Decision, split: SplitSettings) -> PartCounts:
        """Return the rows of each part and class."""
        counts = PartCounts(split, self.fixed)
        for path, values in self.values.items():
            name = values[0] if decision.task == CLASSIFICATION else ""
            counts.add(name, self.parts.get(path, UNDECIDED), self.keys.get(path))
        return counts

    def to_arrow(self, files: Sequence[Path]) -> Any:
        """Return the labels of pictures as an Arrow array of text `[n]`, or a list of one for each column."""
        import pyarrow as pa  # the checker has none

        rows = [self.find(file) for file in files]
        columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        return columns[0] if len(columns) == 1 else columns


def find_label_file(request: Request) -> Path | None:
    """Return the CSV with labels of pictures: the one that `labels` names, or `labels.csv`; None if neither.

    Raises:
        UserError: the one that `labels` names does not exist, or is outside of the data.
    """
    if not request.media.labels:
        file = request.root / LABEL_FILE
        return file if request.root.is_dir() and file.is_file() else None
    name = PurePosixPath(request.media.labels)
    if name.is_absolute() or ".." in name.parts:
        raise UserError(f"labels `{name}` lead out of the data", "give a path inside the folder")
    file = request.root / name
    if not file.is_file():
        names = sorted(entry.name for entry in request.root.iterdir() if entry.suffix.lower() == ".csv")
        raise UserError(
            f"`{request.called or request.root.name}` has no file `{name}` of labels",
            suggest(str(name), names),
        )
    return file


def read_picture_labels(request: Request, file: Path) -> PictureLabels:
    """Read the labels of pictures from a CSV.

    A file name is a path beside the CSV or inside the data, with or without its ending, or the name of a
    picture in any folder. Pictures without a row are left out.

    Raises:
        UserError: the CSV cannot be read, lacks a column, or names a picture that does not exist.
    """
    header = row_faults.csv_header(request, file)
    columns, place = choose_label_columns(request, file, header)
    division = _find_division(request, file)
    parts: dict[str, int] = {}
    keys: dict[str, int] = {}
    values: dict[str, tuple[str, ...]] = {}
    missing: list[tuple[int, str]] = []
    names = _PictureNames(request, file)
    for line, row in row_faults.read_csv_cells(request, file, header):
        cells = tuple(row[header.index(column)] for column in columns)
        if request.missing != REFUSE and not all(cell.strip() for cell in cells):
            continue
        _check_cells(request, file, line, columns, cells)
        picture = names.find(row[place])
        if picture is None:
            missing.append((line, row[place]))
            continue
        if values.setdefault(picture, cells) != cells:
            raise UserError(
                f"line {line} of `{request.show(file)}` gives picture `{clip_text(picture)}` another label"
                " than a line before",
                "give every picture one label",
            )
        if division.names:
            cells_by_name, where = (
                dict(zip(header, row, strict=True)),
                f"line {line} of `{request.show(file)}`",
            )
            parts[picture] = division.find_part(cells_by_name, where)
            key = division.find_key(cells_by_name, where)
            if key is not None:
                keys[picture] = key
    if missing:
        raise _describe_missing(request, file, header[place], missing)
    files = sorted(values)
    if not files:
        raise UserError(f"`{request.show(file)}` names no picture", "give it one row for each picture")
    if request.split is not None and request.split.given and not division.part:
        parts = divide_files(files, request.name)
    return PictureLabels(
        columns,
        values,
        files,
        names.count - len(files),
        request.root,
        parts,
        keys,
        division.bounds,
    )


def _find_division(request: Request, file: Path) -> RowDivision:
    """Return the columns of the CSV that divide the pictures."""
    split = request.split
    refuse_window(split, request.name, "images")
    if split is None or not (split.given or split.columns or split.by_time):
        return RowDivision()
    own = request._replace(files=[file])
    return find_row_division(own, row_faults.read_csv_head(own, [file], HEAD_BYTES), listed=True)


class _PictureNames:
    """Finds a picture by what a CSV calls it."""

    def __init__(self, request: Request, file: Path) -> None:
        self._beside = file.parent.relative_to(request.root).as_posix()
        paths = (path.relative_to(request.root).as_posix() for path in request.files)
        self._paths = {path for path in paths if PurePosixPath(path).suffix.lower() in PICTURES}
        self.count = len(self._paths)
        self._by_name: dict[str, str | None] | None = None

    def find(self, called: str) -> str | None:
        path = called.strip().replace("\\", "/").removeprefix("./")
        for candidate in (path, f"{self._beside}/{path}"):
            if candidate in self._paths:
                return candidate
        if self._by_name is None:
            self._by_name = {}
            for each in sorted(self._paths):
                full = PurePosixPath(each)
                for key in (full.name, full.stem, str(full.with_suffix(""))):
                    # A name that two pictures have tells neither.
                    self._by_name[key] = None if self._by_name.get(key, each) != each else each
        return self._by_name.get(path)


def choose_label_columns(request: Request, file: Path, header: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return the label columns, and which column has the file names.

    Raises:
        UserError: a label column does not exist, or is the one with the file names.
    """
    lower = [name.strip().lower() for name in header]
    place = next((lower.index(name) for name in FILE_COLUMNS if name in lower), 0)
    wanted = (request.label,) if request.label in header else split_names(request.label)
    if wanted == (DEFAULT_LABEL,) and DEFAULT_LABEL not in header and len(header) == 2:
        return (header[1 - place],), place
    for name in wanted:
        if name not in header:
            raise UserError(
                f"`{request.show(file)}` has no label column `{clip_text(name)}`", suggest(name, header)
            )
        if name == header[place]:
            raise UserError(
                f"column `{clip_text(name)}` of `{request.show(file)}` has the file names, and `label` names"
                " it too",
                "name the column with the labels in `label`",
            )
    return wanted, place


def _check_cells(
    request: Request, file: Path, line: int, columns: Sequence[str], cells: Sequence[str]
) -> None:
    for column, cell in zip(columns, cells, strict=True):
        if not cell.strip():
            raise UserError(
                f"line {line} of `{request.show(file)}` has no label in column `{clip_text(column)}`",
                LABEL_HELP,
            )


def _describe_missing(
    request: Request, file: Path, column: str, missing: Sequence[tuple[int, str]]
) -> UserError:
    line, name = missing[0]
    more = f", and {len(missing) - 1:,} more rows name none that exists" if len(missing) > 1 else ""
    return UserError(
        f"line {line} of `{request.show(file)}` names the picture `{clip_text(name)}` in column"
        f" `{clip_text(column)}`, which does not exist{more}",
        "give paths beside the CSV or inside the data",
    )
