"""A spec or a compute file gives a cluster another VM size than `worldsize.yml` or the file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from worldsize.azureml.job import Compute
from worldsize.azureml.model import Cluster
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    cluster, size = context.cluster(compute.name), compute.size
    if cluster is None or cluster.size_span is None or size is None or size.span is None:
        return
    if not isinstance(size.value, str) or cluster.instance_type is None:
        return
    if cluster.size_span == size.span or not _counts_here(cluster, compute):
        return
    if _normalise(context, size.value) != _normalise(context, cluster.instance_type):
        place = PurePath(cluster.size_span.path).name
        message = (
            f"cluster `{compute.name}` is `{size.value}` here, but `{cluster.instance_type}` in `{place}`"
        )
        help_ = "write the size that the cluster has in both, or give one of the two clusters another name"
        yield Finding(size.span, message, help_, (Related(cluster.size_span, "the other size"),))


def _counts_here(cluster: Cluster, compute: Compute) -> bool:
    """Whether the cluster is of the same workspace: the project, or a file beside the spec, defines it.

    Compute files of other folders may be of other workspaces, where a name stands for another cluster.
    """
    if cluster.declared:
        return True
    is_profile = compute.raw is None
    assert cluster.size_span is not None
    return is_profile and PurePath(cluster.size_span.path).is_relative_to(compute.path.parent)


def _normalise(context: Context, name: str) -> str:
    size = context.vm_size(name)
    return name.lower() if size is None else size.name
