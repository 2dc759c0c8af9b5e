"""The keys by which undecided rows are divided: of a group its hash, of a time its place from the newest."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from itertools import accumulate

from wssources.planned_rows import held_out_rows

_ALL = (1 << 64) - 1


def hash_group(value: object, seed: int) -> int:
    """Return the 64-bit hash of a group's value, which does not depend on the machine; 3 and 3.0 are one."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    salted = f"{seed}:{text}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(salted, digest_size=8).digest(), "little")


def newest_key(moment: float) -> int:
    """Return a 64-bit number for a time: the newer the time, the smaller the number."""
    bits = int.from_bytes(struct.pack(">d", moment + 0.0), "big")  # -0.0 becomes 0.0
    ordered = ~bits & _ALL if bits >> 63 else bits | 1 << 63
    return ~ordered & _ALL


def group_limits(hashes: Iterable[int], validation: float, test: float) -> tuple[int, int]:
    """Return the hashes below which groups test, and below which they test or validate.

    Args:
        hashes: of all distinct groups, sorted.
        validation: fraction of the groups that validate.
        test: fraction of the groups that test.
    """
    ordered = list(hashes)
    held_validation, held_test = held_out_rows(len(ordered), validation, test)
    ends = [*ordered, 1 << 64]
    return ends[held_test] if held_test else 0, ends[held_test + held_validation] if (
        held_test + held_validation
    ) else 0


def newest_limits(rows: Mapping[int, int], validation: float, test: float) -> tuple[int, int]:
    """Return the keys below which rows test, and below which they test or validate: the newest ones.

    Rows of one time stay together, so a part can differ from its fraction by those of the time on its border.

    Args:
        rows: number of rows of each :func:`newest_key`.
        validation: fraction of the rows that validate.
        test: fraction of the rows that test.
    """
    keys = sorted(rows)
    newer = list(accumulate((rows[key] for key in keys), initial=0))
    held_validation, held_test = held_out_rows(newer[-1], validation, test)

    def limit(wanted: int) -> int:
        # At the last key at most, so that one time is left to train on.
        places = range(len(keys))
        return keys[min(places, key=lambda place: abs(newer[place] - wanted))] if wanted else 0

    tested = limit(held_test)
    return tested, max(tested, limit(held_test + held_validation))
