"""Which part each row goes to: as its file or date says, or by its time, its group or its content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from spill import Rows, Spill

from wsshards.errors import UserError, print_warning
from wsshards.terms import SPLITS
from wssources.groups import group_limits
from wssources.planned_rows import held_out_rows
from wssources.split import I64, U64, find_thresholds, times_of_keys
from wssources.split_settings import (
    TEST,
    TRAIN,
    UNDECIDED,
    VALIDATION,
    SplitSettings,
    TimeBounds,
    expect_held_out,
)

U8 = npt.NDArray[np.uint8]
GROUP_SHARE = 16  # of the memory limit: that the hashes of all groups may take


class Division:
    """Decides the part of each row, once all rows are stored."""

    def __init__(
        self,
        split: SplitSettings,
        memory: int,
        fixed: frozenset[int] = frozenset(),
        *,
        bounds: TimeBounds | None = None,
        grouped: bool = False,
    ) -> None:
        self._memory, self._grouped = memory, grouped
        self._newest = bounds is not None and bounds.newest
        self._span = (1 << 64) - 1, 0  # smallest and largest key of a time
        self.test_from = bounds.test if bounds is not None else None  # no later row trains
        self._split, self._fixed = split, fixed
        self._wanted = np.zeros(2, np.int64)  # rows that are to validate and to test
        self._validation = 0.0 if VALIDATION in fixed else split.validation
        self._test = 0.0 if TEST in fixed else split.test
        self._rows = np.zeros(0, np.int64)  # undecided rows of each class
        self._groups: U64 = np.empty(0, np.uint64)
        self._limits: tuple[U64, U64] = (np.empty(0, np.uint64), np.empty(0, np.uint64))

    def add(self, hashes: U64, codes: npt.NDArray[np.int32], parts: U8) -> None:
        """Take in rows as they are stored; raises UserError if there are too many groups."""
        open_codes, keys = self._classes(codes[parts == UNDECIDED]), hashes[parts == UNDECIDED]
        if self._newest and len(keys):
            self._span = min(self._span[0], int(keys.min())), max(self._span[1], int(keys.max()))
        counts = np.bincount(open_codes, minlength=len(self._rows)).astype(np.int64)
        counts[: len(self._rows)] += self._rows
        self._rows = counts
        if self._grouped:
            self._groups = np.union1d(self._groups, keys)
            if self._groups.nbytes > self._memory // GROUP_SHARE:
                raise UserError(
                    f"the rows have more than {self._memory // GROUP_SHARE // 8:,} groups",
                    "raise `memory_limit_mib`, or split by another column",
                )

    def find_limits(self, store: Spill) -> None:
        """Find the hashes that part the rows; reads the index of all rows."""
        if self._grouped:
            limits = group_limits(self._groups.tolist(), self._validation, self._test)
            tested, held = (np.full(max(len(self._rows), 1), limit, np.uint64) for limit in limits)
            self._limits = tested, held
            return
        rows = self._rows.tolist() or [0]
        quotas = np.array(
            [held_out_rows(count, self._validation, self._test) for count in rows], np.int64
        ).reshape(-1, 2)
        self._wanted = quotas.sum(axis=0)

        def chunks() -> Iterator[tuple[U64, npt.NDArray[np.int32]]]:
            for piece in store.index():
                undecided = piece.parts == UNDECIDED
                yield self._spread(piece.hashes[undecided]), self._classes(piece.codes[undecided])

        tested = find_thresholds(chunks, rows, 0, quotas=quotas[:, 1])
        held = find_thresholds(chunks, rows, 0, quotas=quotas.sum(axis=1))
        self._limits = tested, np.maximum(tested, held)

    @property
    def test_below(self) -> list[int]:
        """Hash below which undecided rows of each class test; a single one if they are divided by group."""
        return [int(limit) for limit in self._limits[0][: 1 if self._grouped else None]]

    def parts(self, rows: Rows) -> U8:
        """Return the place in `SPLITS` `[n]` of each row."""
        hashed = self.parts_of_hashes(rows.hashes, rows.codes)
        parts: U8 = np.where(rows.parts == UNDECIDED, hashed, rows.parts)
        return parts

    def parts_of_hashes(self, hashes: U64, codes: npt.NDArray[np.int32]) -> U8:
        """Return the place in `SPLITS` `[n]` of undecided rows of the classes `codes`."""
        tested, held = self._limits
        hashes, codes = self._spread(hashes), np.minimum(self._classes(codes), len(tested) - 1)
        parts: U8 = np.full(len(hashes), TRAIN, np.uint8)
        parts[hashes < held[codes]] = VALIDATION
        parts[hashes < tested[codes]] = TEST
        return parts

    def count(self, store: Spill) -> list[int]:
        """Return the rows of each part; reads the index of all rows."""
        counts: I64 = np.zeros(3, np.int64)
        oldest = 0
        for rows in store.index():
            parts = self.parts(rows)
            counts += np.bincount(parts, minlength=3)
            if self._newest:
                oldest = max(oldest, int(rows.hashes[parts == TEST].max(initial=0)))
        if self._newest and counts[TEST]:
            self.test_from = float(times_of_keys(np.array([oldest], np.uint64))[0])
        return [int(count) for count in counts]

    def _classes(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the classes of each of which a fraction is held out: one, if the newest rows are."""
        return np.zeros_like(codes) if self._newest else codes

    def _spread(self, hashes: U64) -> U64:
        """Return hashes, or the keys of times spread over 64 bits in the same order, as hashes are."""
        if not self._newest:
            return hashes
        first, last = self._span
        spread: U64 = (hashes - np.uint64(first)) << np.uint64(64 - max(last - first, 1).bit_length())
        return spread

    def expect_held_out(self, rows: list[int]) -> None:
        """Refuse counts without rows of a part that inputs ask for; warn if equal rows are the reason.

        Raises:
            UserError: groups or dates leave a part without rows.
        """
        expect_held_out(self._split, rows, fixed=self._fixed, groups=len(self._groups))
        for part, wanted in zip((VALIDATION, TEST), self._wanted.tolist(), strict=True):
            if wanted and not rows[part]:
                print_warning(
                    f"rows that are equal stay together, and too few of {sum(rows):,} differ: none"
                    f" is for {SPLITS[part]}"
                )
