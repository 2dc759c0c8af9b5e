"""What the manifest says of a table's columns, learnt from training rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from moments import Moments
from sources.table_codes import TableCodes

from wsshards.manifest import Column, Features
from wsshards.terms import CATEGORY, DATE

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]


class ColumnEncoders:
    """Categories and means of the columns of a table.

    Categories are learnt by :meth:`find_categories` before anything is written, means while it is.
    """

    def __init__(self, features: Features, codes: TableCodes | None) -> None:
        self._features, self._codes = features, codes
        self._places = {}
        at = 0
        for column in features.columns:
            self._places[column.name] = at
            at += column.width
        self._categories: dict[str, tuple[str, ...]] = {}
        self._final: dict[int, F32] = {}
        self._means = [
            place
            for column in features.columns
            for place in range(self._places[column.name], self._places[column.name] + column.width)
            if codes is not None
            and column.kind != CATEGORY
            and (column.kind == DATE or column.name in codes.incomplete)
        ]
        self._moments = Moments(len(self._means))

    def find_categories(self, training: Iterator[Array]) -> None:
        """Learn the categories of the training rows, which come as pieces `[n, width]`."""
        codes = self._codes
        if codes is None or not codes.categories:
            return
        seen = {name: np.zeros(len(known) + 1, bool) for name, known in codes.categories.items()}
        for rows in training:
            for name, marks in seen.items():
                column = rows[:, self._places[name]]
                marks[np.where(np.isnan(column), len(marks) - 1, column).astype(np.int64)] = True
        for name, marks in seen.items():
            known = codes.categories[name]
            values = sorted(value for value, code in known.items() if marks[code])
            final = np.full(len(known) + 1, -1, np.float32)
            for index, value in enumerate(values):
                final[known[value]] = index
            final[-1] = np.nan
            self._categories[name], self._final[self._places[name]] = tuple(values), final

    def recode(self, rows: Array) -> None:
        """Replace, in place, provisional codes by final ones: -1 for what no training row has."""
        for place, final in self._final.items():
            column = rows[:, place]
            rows[:, place] = final[np.where(np.isnan(column), len(final) - 1, column).astype(np.int64)]

    def learn(self, rows: Array, training: npt.NDArray[np.int64]) -> None:
        """Take in the training rows among `rows` `[n, width]`, in their final order."""
        if self._means:
            self._moments.add(rows[np.ix_(training, self._means)])

    def describe(self) -> Features:
        """Return the features with what the columns hold."""
        mean, _ = self._moments.finish()
        means = dict(zip(self._means, mean.tolist(), strict=True))
        columns = []
        for column in self._features.columns:
            place = self._places[column.name]
            columns.append(
                Column(
                    column.name,
                    column.kind,
                    self._categories.get(column.name, ()),
                    tuple(means[at] for at in range(place, place + column.width) if at in means),
                    self._codes is not None and column.name in self._codes.incomplete,
                    column.form,
                )
            )
        return replace(self._features, columns=tuple(columns))
