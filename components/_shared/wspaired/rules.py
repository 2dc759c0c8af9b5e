"""The rules by which a challenger takes the champion's place."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from wsshards.errors import UserError, clip_text

if TYPE_CHECKING:
    from wspaired.difference import Difference

# The normal deviate of 80 % confidence. In simulated years of weekly trainings it lost least, or hardly more,
# for 300 rows and for 10,000: a threshold promotes nearly everything, and 95 % keep a champion that has aged.
_BETTER = 0.84
_CONFIDENCE = 0.95  # one-sided, of `not_worse`
RULES = ("better", "not_worse", "significant", "newest", "standard_errors")
_EXAMPLE = "write `better`, `not_worse 0.01`, `significant 0.95`, `standard_errors 2` or `newest`"


class Rule(NamedTuple):
    """One of `RULES`, and its number if it has one."""

    kind: str
    value: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind in ("better", "newest") else f"{self.kind} {self.value:g}"

    @property
    def is_newest(self) -> bool:
        """Whether the challenger takes the place whatever the difference."""
        return self.kind == "newest"

    def bound(self, difference: Difference) -> float:
        """Return what the improvement has to be larger than."""
        if self.kind == "not_worse":
            return difference.value - difference.lower_bound(_CONFIDENCE) - self.value
        if self.kind == "significant":
            return difference.value - difference.lower_bound(self.value)
        return (_BETTER if self.kind == "better" else self.value) * difference.standard_error

    def holds(self, difference: Difference) -> bool:
        """Whether the improvement is large enough."""
        return self.is_newest or difference.value > self.bound(difference)


class Guard(NamedTuple):
    """A metric that has to hold beside the one that decides."""

    metric: str
    rule: Rule


def parse_rule(text: str) -> Rule:
    """Parse a rule such as `not_worse 0.01`.

    Raises:
        UserError: there is no such rule, or its number is missing, superfluous or out of range.
    """
    kind, _, number = text.strip().partition(" ")
    shown = clip_text(text.strip())
    if kind not in RULES:
        import difflib  # the checker reads rules, and most are right

        close = difflib.get_close_matches(kind, RULES, n=1)
        raise UserError(f"`{shown}` is not a rule", f"did you mean `{close[0]}`?" if close else _EXAMPLE)
    if kind in ("better", "newest"):
        if number.strip():
            raise UserError(f"`{shown}`: the rule `{kind}` takes no number", _EXAMPLE)
        return Rule(kind)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UserError(f"`{shown}`: the rule `{kind}` takes a number of at least 0", _EXAMPLE)
    if kind == "significant" and not 0.5 <= value < 1:
        raise UserError(f"`{shown}`: a confidence is from 0.5 to less than 1", _EXAMPLE)
    return Rule(kind, value)


def parse_guards(text: str) -> tuple[Guard, ...]:
    """Parse guards, joined by semicolons: `recall_fraud: not_worse 0.01; loss: better`.

    Raises:
        UserError: a part is not a metric and a rule.
    """
    return tuple(_parse_guard(part.strip()) for part in re.split(r"[;\n]", text) if part.strip())


def _parse_guard(part: str) -> Guard:
    metric, colon, rule = part.rpartition(":")
    if not colon or not metric.strip():
        raise UserError(
            f"`{clip_text(part)}` is not a guard",
            "write a metric and its rule: `recall_fraud: not_worse 0.01`",
        )
    return Guard(metric.strip(), parse_rule(rule))
