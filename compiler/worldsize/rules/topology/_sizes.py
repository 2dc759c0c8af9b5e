"""Where a native file names a VM size itself: ``size`` of a compute file, ``instance_type`` of a step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from worldsize.azureml.fields import read_member
from worldsize.azureml.job import Compute
from worldsize.azureml.model import Job
from worldsize.base.span import Span
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.facts.vm_sizes import VmSize

# The catalogue holds the sizes that training uses, all of NC and ND; other families have many more.
_SHAPE = re.compile(r"standard_([A-Z]+)\d+(-\d+)?[a-z]*(_[A-Z0-9]+)?(_v\d+)?(_promo)?", re.IGNORECASE)


class SizeName(NamedTuple):
    """A VM size as written, and where."""

    name: str
    span: Span


def find_size_names(context: Context, subject: Job | Compute) -> Iterator[SizeName]:
    """The VM sizes that a native file names. Those of a spec are checked while it is planned."""
    if isinstance(subject, Compute):
        size = subject.size
        if size is not None and isinstance(size.value, str) and size.span is not None:
            yield SizeName(size.value, size.span)
    elif subject.raw is not None:
        for step in subject.steps.values():
            if step.type == "spark":
                continue  # serverless Spark has a short list of its own
            for block in (step.resources, step.component.resources if step.component else None):
                typed = read_member(block, "instance_type")
                if typed is not None and isinstance(typed.value, str) and typed.span is not None:
                    yield SizeName(typed.value, typed.span)


def looks_wrong(name: str) -> bool:
    """Whether a name that the catalogue lacks is not a size at all, rather than one of the many others.

    On Kubernetes ``instance_type`` is any name, so only what begins like Azure's own is judged.
    """
    if not name.lower().startswith("standard"):
        return False
    shape = _SHAPE.fullmatch(name)
    return shape is None or shape[1].upper() in ("NC", "ND")


def suggest_replacement(size: VmSize) -> str:
    """What to choose instead of a size that is gone: one that can be had, with as many GPUs."""
    from worldsize.facts import vm_sizes  # only a fault reads the whole catalogue

    for name in vm_sizes.names():
        other = vm_sizes.lookup(name)
        if other is None or other.status != "current" or other.is_growth_restricted:
            continue
        if other.gpus == size.gpus and bool(other.rdma) == bool(size.rdma):
            like = f"has as many GPUs ({other.gpu_model})" if size.gpus else "is current"
            return f"`{other.name}` {like}"
    return "choose a current size with as many GPUs"
