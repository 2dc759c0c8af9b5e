"""How many rows of a table train, validate and test, counted row by row as `shard_data` divides them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wsshards.regular_files import check_regular
from wssources.groups import group_limits, newest_limits
from wssources.planned_rows import divide_rows, text_rows
from wssources.request import Request
from wssources.split_settings import TEST, TRAIN, UNDECIDED, VALIDATION, SplitSettings, fixed_parts


def count_windows(request: Request, parts: Mapping[Path, int]) -> PartCounts:
    """Return the rows of a language model of bytes: windows over the text files of each part."""
    counts = PartCounts(request.split or SplitSettings(), fixed_parts(None, parts.values()))
    sizes: Counter[int] = Counter()
    for file in request.files:
        sizes[parts.get(file, UNDECIDED)] += check_regular(file)
    for part, size in sizes.items():
        rows = text_rows(size, request.sequence_length)
        counts.rows[part] += rows if part else 0
        counts.classes[""] += 0 if part else rows
    return counts


@dataclass
class PartCounts:
    """Rows by part, and undecided ones by class and by group.

    Attributes:
        split: what divides the rows.
        fixed: parts that files or dates fill.
        rows: of the parts that are decided.
        classes: undecided rows of each class; one class for what has none.
        keys: undecided rows by the key of their group or time.
    """

    split: SplitSettings
    fixed: frozenset[int] = frozenset()
    rows: list[int] = field(default_factory=lambda: [0, 0, 0])
    classes: Counter[str] = field(default_factory=Counter)
    keys: Counter[int] = field(default_factory=Counter)

    def add(self, name: str, part: int = UNDECIDED, key: int | None = None) -> None:
        """Count a row of a class."""
        if part != UNDECIDED:
            self.rows[part] += 1
            return
        self.classes[name] += 1
        if key is not None:
            self.keys[key] += 1

    def divide(self) -> tuple[int, int, int]:
        """Return the rows that train, validate and test.

        Where copies of one row sit on a boundary the step may differ by those.
        """
        validation = 0.0 if VALIDATION in self.fixed else self.split.validation
        test = 0.0 if TEST in self.fixed else self.split.test
        if not (self.split.by or self.split.newest):
            divided = divide_rows(list(self.classes.values()), validation, test)
        else:
            tested, held = (
                newest_limits(self.keys, validation, test)
                if self.split.newest
                else group_limits(sorted(self.keys), validation, test)
            )
            parts = [0, 0, 0]
            for key, rows in self.keys.items():
                parts[TEST if key < tested else VALIDATION if key < held else TRAIN] += rows
            divided = parts[0], parts[1], parts[2]
        train, validated, tested_rows = (a + b for a, b in zip(self.rows, divided, strict=True))
        return train, validated, tested_rows
