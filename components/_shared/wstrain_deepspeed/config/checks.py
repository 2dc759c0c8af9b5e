"""A configuration judged value by value against what else is known."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from wstrain_deepspeed.config import auto, batch, keys, made, precision, zero
from wstrain_deepspeed.config.finding import Finding, Known

_CHECKS = (keys.check, auto.check, batch.check, zero.check, precision.check, made.check)
_MOST = 500  # findings of one check; nobody reads more


def verify(config: Mapping[str, Any], known: Known | None = None) -> list[Finding]:
    """What is wrong with a configuration, one finding a cause.

    Args:
        config: The configuration, as ``json.load`` gives it.
        known: The processes, the plan and the program around it; nothing is said of what is not known.

    Returns:
        The findings, by kind and place in the order of the checks; none for what DeepSpeed starts with and
        does as it reads. Findings of the kinds in ``ADVICE`` do not keep DeepSpeed from starting.
    """
    found: dict[tuple[str | int, ...], Finding] = {}
    for check in _CHECKS:
        for finding in islice(check(config, known or Known()), _MOST):
            found.setdefault(finding.path, finding)  # a value of the wrong type is not also out of range
    return list(found.values())
