"""A cluster is of a VM size of which Azure adds no more.

Who has quota keeps it; new quota or new capacity is not given.

Why: A cluster that is to grow, or to be made in another subscription, cannot be.

Bad::

    size: Standard_NC96ads_A100_v4

Good::

    size: Standard_ND96isr_H100_v5

Fix: Choose a size that Azure still adds for a new cluster; keep this one where it already runs.

Source: The catalogue of VM sizes, ``compiler/worldsize/facts/vm_sizes.csv``, each row with its source.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.compute import Compute
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS225",
    "vm-size-without-growth",
    "info",
    since="0.1.0",
    summary="a cluster of a VM size that Azure no longer adds",
)


_SAYS = {
    "no-growth": "new subscriptions cannot have it, and its quota no longer grows",
    "no-new-capacity": "Azure adds no capacity of it",
}


@RULE.checks(Compute)
def check(context: Context, compute: Compute) -> Iterator[Problem]:
    typed = compute.size
    size = context.vm_size(typed.value) if typed is not None and isinstance(typed.value, str) else None
    if size is None or typed is None or typed.span is None or size.status != "current":
        return  # a size that is to be retired has a rule of its own
    if size.capacity:
        message = f"`{size.name}` is hard to get: {_SAYS[size.capacity]}"
        yield RULE.problem(typed.span, message, "for a new cluster choose a size that Azure still adds")
