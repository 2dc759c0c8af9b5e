"""Turning labels of any kind into numbered classes, one look at each distinct value a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sources.common import MAX_CLASSES

from wsshards.errors import UserError

I32 = npt.NDArray[np.int32]


class ClassIndex:
    """Classes in the order they were met; `order` says where each one belongs once all are known."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.codes: dict[str, int] = {}
        self.rows: list[int] = []

    def encode(self, labels: Any, first_row: int) -> I32:
        """Number the labels `[n]` of the rows from `first_row` on, counting from 0.

        Raises:
            UserError: a label is missing, a fraction, or there are too many distinct ones.
        """
        if labels.null_count:
            row = first_row + int(np.flatnonzero(labels.is_null().to_numpy(zero_copy_only=False))[0])
            raise UserError(f"row {row + 1} has no label in `{self.label}`", "fill or drop missing labels")
        if not pa.types.is_dictionary(labels.type):
            labels = pc.dictionary_encode(labels)
        lookup = np.array([self._code(value) for value in labels.dictionary.to_pylist()], np.int32)
        codes: I32 = lookup[labels.indices.to_numpy(zero_copy_only=False)]
        for code, count in enumerate(np.bincount(codes, minlength=len(self.rows)).tolist()):
            self.rows[code] += count
        return codes

    def _code(self, value: object) -> int:
        name = self._name(value)
        code = self.codes.setdefault(name, len(self.codes))
        if code == len(self.rows):
            self.rows.append(0)
        if len(self.codes) > MAX_CLASSES:
            raise UserError(
                f"label `{self.label}` has more than {MAX_CLASSES:,} distinct values",
                "name a column of classes in `label`; numbers to predict are not classes",
            )
        return code

    def _name(self, value: object) -> str:
        if isinstance(value, float):
            if not value.is_integer():
                raise UserError(
                    f"label `{self.label}` has the value `{value}`, which is not a class",
                    "name a column of classes in `label`; numbers to predict are not classes",
                )
            return str(int(value))
        if isinstance(value, str | int):
            return str(value)
        raise UserError(
            f"label `{self.label}` holds {type(value).__name__}, not text or whole numbers", "name another"
        )

    def order(self) -> tuple[tuple[str, ...], I32]:
        """The class names in their final order, and the final number of each code `[classes]`.

        Whole numbers are ordered as numbers, anything else as text, whatever order the rows came in.
        """
        names = list(self.codes)
        numbers = all(name.removeprefix("-").isdecimal() for name in names)
        ordered = sorted(names, key=(lambda name: (int(name), name)) if numbers else None)
        final = np.empty(len(names), np.int32)
        for place, name in enumerate(ordered):
            final[self.codes[name]] = place
        return tuple(ordered), final
