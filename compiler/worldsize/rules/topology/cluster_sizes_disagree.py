"""A spec or a compute file gives a cluster another VM size than `worldsize.yml` or the file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from worldsize.azureml.job import Compute
from worldsize.azureml.model import Cluster
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    known, size = context.cluster(compute.name), compute.size
    if known is None or known.size_span is None or size is None or size.span is None:
        return
    if not isinstance(size.value, str) or known.instance_type is None:
        return
    if known.size_span == size.span or not _counts_here(known, compute):
        return
    if _normalise(context, size.value) != _normalise(context, known.instance_type):
        place = PurePath(known.size_span.path).name
        message = f"cluster `{compute.name}` is `{size.value}` here, but `{known.instance_type}` in `{place}`"
        help_ = "write the size that the cluster has in both, or give one of the two clusters another name"
        yield Finding(size.span, message, help_, (Related(known.size_span, "the other size"),))


def _counts_here(known: Cluster, compute: Compute) -> bool:
    """Whether what is known is of the same workspace: said by the project, or by a file beside the spec.

    Compute files of other folders may be of other workspaces, where a name stands for another cluster.
    """
    if known.declared:
        return True
    is_profile = compute.raw is None
    assert known.size_span is not None
    return is_profile and PurePath(known.size_span.path).is_relative_to(compute.path.parent)


def _normalise(context: Context, name: str) -> str:
    size = context.vm_size(name)
    return name.lower() if size is None else size.name
