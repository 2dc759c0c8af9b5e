"""Which part the rows of a group are in: by the hash of the group's value."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from wssources.planned_rows import held_out_rows


def hash_group(value: object, seed: int) -> int:
    """Return the 64-bit hash of a group's value, which does not depend on the machine; 3 and 3.0 are one."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    salted = f"{seed}:{text}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(salted, digest_size=8).digest(), "little")


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
