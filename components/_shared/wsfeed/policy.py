"""The checks of a feed, their thresholds, and how the inputs of `shard_data` name them.

Nothing here needs more than the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from wsshards.errors import UserError, clip_text

# `drift` comes last: what another check says of a column is not said again.
CHECKS = ("schema", "empty", "nulls", "range", "categories", "labels", "duplicates", "drift")
NONE = "none"  # no check at all
# What a careful person would choose: shares of rows, but for `range`, `rows` and `psi`.
THRESHOLDS: Mapping[str, float] = {
    "nulls": 0.05,  # rise of a column's missing share
    "range": 1.0,  # ranges of the other feed that a value may lie beyond it
    "categories": 0.01,  # values that the other feed has not
    "labels": 0.1,  # change of a class's share
    "duplicates": 0.1,  # rise of the share of rows that are copies
    "rows": 0.5,  # of the other feed's rows, below which a feed counts as empty
    "psi": 0.2,  # population stability index of a column, or of the targets
}


@dataclass(frozen=True)
class Policy:
    """Which checks stop a feed, which of the others warn, and the thresholds that are not the default."""

    stop: frozenset[str] = frozenset()
    warn: frozenset[str] = frozenset()
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def threshold(self, name: str) -> float:
        """Return the threshold of this name."""
        return self.thresholds.get(name, THRESHOLDS[name])


def parse_policy(stop: str, warn: str, thresholds: str) -> Policy:
    """Parse lists such as `schema, nulls` or `none`, and thresholds such as `psi: 0.2; nulls: 0.1`.

    Raises:
        UserError: there is no such check or threshold, or it is not a number above 0.
    """
    values: dict[str, float] = {}
    for entry in _split(thresholds, ";"):
        name, _, text = (part.strip() for part in entry.partition(":"))
        if name not in THRESHOLDS:
            raise _refuse("feed_thresholds", name, "threshold", list(THRESHOLDS))
        try:
            values[name] = float(text)
        except ValueError:
            values[name] = math.nan
        if not 0 < values[name] < math.inf:
            raise UserError(
                f"`feed_thresholds` has `{clip_text(text)}` for `{name}`", "give a number above 0"
            )
    return Policy(_parse_checks("feed_stop", stop), _parse_checks("feed_warn", warn), values)


def _parse_checks(option: str, text: str) -> frozenset[str]:
    names = [] if text.strip() == NONE else _split(text, ",")
    for name in names:
        if name not in CHECKS:
            raise _refuse(option, name, "check", CHECKS)
    return frozenset(names)


def _split(text: str, mark: str) -> list[str]:
    return [part.strip() for part in text.split(mark) if part.strip()]


def _refuse(option: str, name: str, what: str, names: tuple[str, ...] | list[str]) -> UserError:
    listed = ", ".join(f"`{each}`" for each in names)
    return UserError(f"`{option}` has `{clip_text(name)}`, which is not a {what}", f"it may have {listed}")
