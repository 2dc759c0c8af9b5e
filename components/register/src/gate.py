"""The quality gate: conditions such as `accuracy >= 0.97; loss < 0.2`, applied to measured metrics."""

from __future__ import annotations

import difflib
import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wsshards.errors import UserError, clip_text
from wsshards.regular_files import read_regular

_LARGEST = 10**308  # larger integers do not fit into a float
_COMPARED = 10_000  # names that a misspelt name is compared with
_LARGEST_FILE = 16 << 20  # bytes: the metrics of 10,000 classes need only a fraction of it
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(r"(?P<metric>[^<>=]+)(?P<operator>>=|<=|==|>|<)(?P<bound>[^<>=]+)")
_EXAMPLE = "write conditions such as `accuracy >= 0.97; loss < 0.2`"


@dataclass(frozen=True)
class Condition:
    """One condition: a metric, a comparison operator and a bound."""

    metric: str
    operator: str
    bound: float

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {self.bound:g}"


def parse_gate(text: str) -> tuple[Condition, ...]:
    """Parse the conditions in `text`, separated by semicolons or new lines; all of them must hold.

    Raises:
        UserError: a part is not a condition.
    """
    parts = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
    return tuple(_condition(part) for part in parts)


def _condition(part: str) -> Condition:
    match = _CONDITION.fullmatch(part)
    if match is None or not match["metric"].strip() or not match["bound"].strip():
        raise UserError(f"`{part}` in the gate is not a condition", _EXAMPLE)
    try:
        bound = float(match["bound"])
    except ValueError:
        raise UserError(f"`{match['bound'].strip()}` in the gate is not a number", _EXAMPLE) from None
    if math.isnan(bound):
        raise UserError(f"`{part}` in the gate compares with nan, which nothing passes", _EXAMPLE)
    return Condition(match["metric"].strip(), match["operator"], bound)


def shortfalls(gate: tuple[Condition, ...], metrics: Mapping[str, float]) -> list[str]:
    """Describe the conditions that do not hold, each with both numbers; empty if all hold.

    Raises:
        UserError: the gate names a metric that was not measured.
    """
    for condition in gate:
        if condition.metric not in metrics:
            close = difflib.get_close_matches(condition.metric, list(metrics)[:_COMPARED], n=1)
            shown = ", ".join(f"`{clip_text(name)}`" for name in list(metrics)[:12])
            raise UserError(
                f"the gate asks for `{condition.metric}`, which was not measured",
                f"did you mean `{close[0]}`?" if close else f"measured were {shown}",
            )
    return [
        f"{c.metric} is {metrics[c.metric]:.6g}, and the gate requires {c.operator} {c.bound:g}"
        for c in gate
        if not _OPERATORS[c.operator](metrics[c.metric], c.bound)
    ]


def read_metrics(folder: str) -> dict[str, float]:
    """Read the numbers in `metrics.json` in a metrics folder.

    Raises:
        UserError: the file is missing or is not a flat object of numbers.
    """
    path = Path(folder) / "metrics.json"
    again = "bind the `metrics` output of an `evaluate` step, or write {name: number} to `metrics.json`"
    try:
        data = json.loads(read_regular(path, _LARGEST_FILE))
    except FileNotFoundError:
        raise UserError(f"`{folder}` has no `metrics.json`", again) from None
    except RecursionError:
        raise UserError(f"cannot read `{path}`: it is nested too deeply", again) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot read `{path}`: {clip_text(str(reason), 200)}", again) from None
    if not isinstance(data, dict):
        raise UserError(f"`{path}` is not a JSON object", again)
    for name, value in data.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"metric `{clip_text(name)}` in `{path}` is not a number", again)
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise UserError(f"metric `{clip_text(name)}` in `{path}` is larger than any number", again)
    return {name: float(value) for name, value in data.items()}
