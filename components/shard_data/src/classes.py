"""Converts labels of any kind to numbered classes; looks at each distinct value once per batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wsshards.errors import UserError
from wsshards.terms import CLASSIFICATION
from wssources.formats import MAX_CLASS_NAME, MAX_CLASSES
from wssources.request import first_line
from wssources.tasks import LabelValues, decide_task, name_class

I32 = npt.NDArray[np.int32]


class ClassIndex:
    """Classes in the order of their first row; `order` gives their final order once all are known."""

    def __init__(self, label: str, *, fractions: bool = False) -> None:
        self.label, self._fractions = label, fractions
        self.codes: dict[str, int] = {}
        self.rows: list[int] = []
        self._first: dict[int, int] = {}  # row in which a class is met first

    def encode(self, labels: Any, first_row: int) -> I32:
        """Number the labels `[n]` of the rows from `first_row` on, counting from 0.

        Raises:
            UserError: a label is missing or a fraction, or there are too many distinct labels.
        """
        if labels.null_count:
            row = first_row + int(np.flatnonzero(labels.is_null().to_numpy(zero_copy_only=False))[0])
            raise UserError(f"row {row + 1} has no label in `{self.label}`", "fill or drop missing labels")
        if not pa.types.is_dictionary(labels.type):
            labels = pc.dictionary_encode(labels)
        # A dictionary may contain values that no row has.
        used = np.flatnonzero(np.bincount(labels.indices.to_numpy(zero_copy_only=False)))
        if len(used) > MAX_CLASSES:
            raise self._too_many()
        lookup = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.int32)
        lookup[used] = [self._code(value) for value in self._values(labels.dictionary, used)]
        codes: I32 = lookup[labels.indices.to_numpy(zero_copy_only=False)]
        for code in range(len(self._first), len(self.rows)):
            self._first[code] = first_row + int(np.flatnonzero(codes == code)[0])
        for code, count in enumerate(np.bincount(codes, minlength=len(self.rows)).tolist()):
            self.rows[code] += count
        return codes

    def _code(self, value: object) -> int:
        name = self._name(value)
        code = self.codes.setdefault(name, len(self.codes))
        if code == len(self.rows):
            self.rows.append(0)
        if len(self.codes) > MAX_CLASSES:
            raise self._too_many()
        return code

    def _too_many(self) -> UserError:
        return UserError(
            f"label `{self.label}` has more than {MAX_CLASSES:,} distinct values",
            "say `task: regression`, or name a column of classes in `label`",
        )

    def _values(self, dictionary: Any, used: npt.NDArray[np.int64]) -> list[Any]:
        kind = dictionary.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            longest = pc.max(pc.binary_length(dictionary)).as_py() or 0
            if longest > MAX_CLASS_NAME:
                raise UserError(
                    f"label `{self.label}` has a value of {longest:,} bytes, and the name of a class may"
                    f" have {MAX_CLASS_NAME:,}",
                    "name a column of classes in `label`",
                )
        try:
            return list(dictionary.take(pa.array(used)).to_pylist())
        except (UnicodeDecodeError, pa.ArrowException) as error:
            raise UserError(
                f"label `{self.label}` holds what cannot be read: {first_line(str(error))}",
                "write labels as UTF-8 text or whole numbers",
            ) from None

    def _name(self, value: object) -> str:
        if isinstance(value, float):
            if not value.is_integer() and not self._fractions:
                raise UserError(
                    f"label `{self.label}` has the value `{value}`, which is not a class",
                    "say `task: regression`, or name a column of classes in `label`",
                )
            return name_class(value)
        if isinstance(value, str | int):
            return str(value)
        raise UserError(
            f"label `{self.label}` holds {type(value).__name__}, not text or whole numbers", "name another"
        )

    def check_task(self) -> None:
        """Refuse labels of which the first rows did not show that they are no classes, or several a row.

        Raises:
            UserError: saying the numbers.
        """
        values = LabelValues(self.label)
        for name in self.codes:
            values.add(name)
        values.rows = sum(self.rows)
        values.wholes += values.rows - len(self.codes) if values.numbers == len(self.codes) else 0
        if values.fraction and values.numbers == values.rows:
            row = self._first[self.codes[values.fraction]]
            raise UserError(
                f"row {row + 1:,} has `{values.fraction}` in label `{self.label}`, and the first rows whole"
                " numbers",
                "say `task: regression` or `task: classification`",
            )
        decision = decide_task("auto", [values], sampled=False, called="")
        if decision.task != CLASSIFICATION:
            raise UserError(
                f"{decision.reason}, which the first rows did not show",
                f"say `task: {decision.task}` or `task: classification`",
            )

    def order(self) -> tuple[tuple[str, ...], I32]:
        """Return the class names in their final order, and the final number of each code `[classes]`.

        Integers are ordered as numbers, anything else as text. The order of the rows has no effect.
        """
        names = list(self.codes)
        numbers = all(name.removeprefix("-").isdecimal() for name in names)
        ordered = sorted(names, key=(lambda name: (int(name), name)) if numbers else None)
        final = np.empty(len(names), np.int32)
        for place, name in enumerate(ordered):
            final[self.codes[name]] = place
        return tuple(ordered), final
