"""A cluster uses a VM size for which Azure adds no more capacity."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.job import Compute
from worldsize.base.problem import Finding
from worldsize.rules.context import Context

_SAYS = {
    "no-growth": "new subscriptions cannot have it, and its quota no longer grows",
    "no-new-capacity": "Azure adds no more capacity for it",
}


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    typed = compute.size
    size = context.vm_size(typed.value) if typed is not None and isinstance(typed.value, str) else None
    if size is None or typed is None or typed.span is None or size.status != "current":
        return  # a size that is to be retired has a rule of its own
    if compute.declared:
        return  # the cluster exists
    if size.capacity:
        message = f"`{size.name}` is hard to get: {_SAYS[size.capacity]}"
        yield Finding(typed.span, message, "for a new cluster choose another size")
