"""VM sizes that are unknown, retired, without growth, too dear, or not those of the cluster elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from worldsize.azureml import literals
from worldsize.azureml.fields import read_member
from worldsize.azureml.job import Compute
from worldsize.azureml.launch import Launch
from worldsize.azureml.model import Cluster, Job
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.shared.prices import describe_place, find_preemptible_tier, find_prices

if TYPE_CHECKING:
    from worldsize.facts.prices import Price, Tier
    from worldsize.facts.vm_sizes import VmSize


# The catalogue holds the sizes that training uses, all of NC and ND; other families have many more.
_SHAPE = compile_later(r"standard_([A-Z]+)\d+(-\d+)?[a-z]*(_[A-Z0-9]+)?(_v\d+)?(_promo)?", re.IGNORECASE)


def check_job(context: Tree, subject: Job | Compute) -> Iterator[Problem]:
    for name, span in _find_size_names(subject):
        size = context.vm_size(name)
        if size is None:
            if _looks_wrong(name):
                yield _unknown(context, name, span)
        elif size.status == "retired":
            day = size.retirement_date
            why = f"Azure retired it on {day}" if day else "it no longer deploys"
            message = f"`{name}` is not available: {why}"
            yield Problem("vm-size-retired", span, message, _suggest_replacement(size))
        elif size.status == "retiring":
            message = f"`{name}` retires on {size.retirement_date}"
            yield Problem("vm-size-retiring", span, message, "move to a current size before that day")


check_compute = check_job


def _unknown(context: Tree, name: str, span: Span) -> Problem:
    from worldsize.facts import vm_sizes  # only a fault needs the list of names

    near = vm_sizes.suggest(name, context.vm_sizes)
    message = f"`{name}` is not in the catalogue of VM sizes, so its GPUs are unknown"
    help_ = f"did you mean `{near}`?" if near else "check the name with `az ml compute list-sizes`"
    size = context.vm_size(near) if near else None
    if size is not None and size.status == "retired":
        help_ = f"the most similar name, `{near}`, is of a size that Azure has retired"
    # A name that is like no other may be a size that is newer than the catalogue.
    return Problem("vm-size-unknown", span, message, help_, confidence=None if near else "possible")


def _find_size_names(subject: Job | Compute) -> Iterator[tuple[str, Span]]:
    """The VM sizes that a job or cluster names."""
    if isinstance(subject, Compute):
        size = subject.size
        if size is not None and isinstance(size.value, str) and size.span is not None:
            yield size.value, size.span
    else:
        for step in subject.steps.values():
            if step.type == "spark":
                continue  # serverless Spark has a short list of its own
            for block in (step.resources, step.component.resources if step.component else None):
                typed = read_member(block, "instance_type")
                if typed is not None and isinstance(typed.value, str) and typed.span is not None:
                    yield typed.value, typed.span


def _looks_wrong(name: str) -> bool:
    """Whether a name that the catalogue lacks is not a size at all, rather than an unlisted one.

    On Kubernetes ``instance_type`` is any name, so only what begins like Azure's own is judged.
    """
    if not name.lower().startswith("standard"):
        return False
    shape = _SHAPE.fullmatch(name)
    return shape is None or shape[1].upper() in ("NC", "ND")


def _suggest_replacement(size: VmSize) -> str:
    """The size to choose instead of a retired one: an available one with as many GPUs."""
    from worldsize.facts import vm_sizes  # only a fault reads the whole catalogue

    for name in vm_sizes.names():
        other = vm_sizes.lookup(name)
        if other is None or other.status != "current" or other.is_growth_restricted:
            continue
        if other.gpus == size.gpus and bool(other.rdma) == bool(size.rdma):
            like = f"has as many GPUs ({other.gpu_model})" if size.gpus else "is current"
            return f"write for example `{other.name}`, which {like}"
    return "choose a current size with as many GPUs"


_SAYS = {
    "no-growth": "new subscriptions cannot have it, and its quota no longer grows",
    "no-new-capacity": "Azure adds no more capacity for it",
}


def check_vm_size_without_growth(context: Tree, compute: Compute) -> Iterator[Finding]:
    typed = compute.size
    size = context.vm_size(typed.value) if typed is not None and isinstance(typed.value, str) else None
    if size is None or typed is None or typed.span is None or size.status != "current":
        return  # a size that is to be retired has a rule of its own
    if compute.declared:
        return  # the cluster exists
    if size.capacity:
        message = f"`{size.name}` is hard to get: {_SAYS[size.capacity]}"
        yield Finding(typed.span, message, "for a new cluster choose another size")


def check_cluster_sizes_disagree(context: Tree, compute: Compute) -> Iterator[Finding]:
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


def _normalise(context: Tree, name: str) -> str:
    size = context.vm_size(name)
    return name.lower() if size is None else size.name


def check_cheaper_vm_size(context: Tree, launch: Launch) -> Iterator[Finding]:
    size, span = launch.size, launch.chosen_size_span
    if size is None or span is None or size.status == "retired":
        return
    from worldsize.facts.vm_sizes import find_as_good  # reads the whole catalogue

    tier: Tier = "low_priority" if find_preemptible_tier(launch) else "dedicated"
    cheaper: list[tuple[list[tuple[Price, Price]], VmSize]] = []
    for other in find_as_good(size) if not size.is_learned else ():
        pairs = find_prices(context.prices(), (size.name, tier), (other.name, tier))
        if pairs and all(theirs.amount < ours.amount for ours, theirs in pairs):
            cheaper.append((pairs, other))
    if cheaper:
        pairs, other = min(cheaper, key=lambda offer: offer[0][0][1].amount)
        ours, theirs = pairs[0]
        message = (
            f"`{size.name}` costs {ours.amount:.5g} {ours.currency} an hour, `{other.name}` only"
            f" {theirs.amount:.5g} {theirs.currency} {describe_place(pairs)}"
        )
        yield Finding(span, message, _describe(other, size))


def _describe(other: VmSize, size: VmSize) -> str:
    """The resources of the cheaper size, with those of which it has slightly less."""
    less = [
        f"{theirs:g} GiB instead of {ours:g} GiB of {what}"
        for what, theirs, ours in (
            ("memory", other.ram_gib, size.ram_gib),
            ("temporary disk", other.temp_disk_gib, size.temp_disk_gib),
        )
        if theirs is not None and ours is not None and theirs < ours
    ]
    exception = f", but {' and '.join(less)}" if less else ""
    return (
        f"if the region and your quota have it, write `{other.name}`: its GPUs ({other.gpu_model}) and links"
        f" are at least as fast{exception}"
    )


def check_instances_never_released(context: Tree, compute: Compute) -> Iterator[Finding]:
    low = compute.raw.get("min_instances") if compute.raw is not None else None
    most = literals.parse_number(compute.max_instances.value) if compute.max_instances is not None else None
    size = context.vm_size(compute.size.value) if compute.size is not None else None
    least = literals.parse_number(low.value) if isinstance(low, Scalar) else None
    if not isinstance(low, Scalar) or least is None or least <= 0 or size is None or not size.gpus:
        return
    if most is not None and least > most:
        return  # no cluster has these bounds
    gpus = plural(int(least) * size.gpus, "GPU")
    message = f"`min_instances` is {low.text}: {gpus} of `{size.name}` are paid for even when no job runs"
    help_ = "write 0; `idle_time_before_scale_down` keeps instances for the next job"
    # The wait for an instance may be what the money is paid for.
    yield Finding(low.span, message, help_, fix=Fix(low.span, "0", safe=False))
