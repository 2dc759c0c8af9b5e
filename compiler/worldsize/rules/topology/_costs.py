"""VM sizes and clusters that cost more than they need to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml import literals
from worldsize.azureml.job import Compute
from worldsize.azureml.launch import Launch
from worldsize.base.problem import Finding, Fix
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context
from worldsize.rules.shared.prices import describe_place, find_preemptible_tier, find_prices

if TYPE_CHECKING:
    from worldsize.facts.prices import Price, Tier
    from worldsize.facts.vm_sizes import VmSize


def check_cheaper_vm_size(context: Context, launch: Launch) -> Iterator[Finding]:
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


def check_instances_never_released(context: Context, compute: Compute) -> Iterator[Finding]:
    low = compute.raw.get("min_instances") if compute.raw is not None else None
    most = literals.parse_number(compute.max_instances.value) if compute.max_instances is not None else None
    size = context.vm_size(compute.size.value) if compute.size is not None else None
    least = literals.parse_number(low.value) if isinstance(low, Scalar) else None
    if not isinstance(low, Scalar) or least is None or least <= 0 or size is None or not size.gpus:
        return
    if most is not None and least > most:
        return  # there is no such cluster
    gpus = plural(int(least) * size.gpus, "GPU")
    message = f"`min_instances` is {low.text}: {gpus} of `{size.name}` are paid for even when no job runs"
    help_ = "write 0; `idle_time_before_scale_down` keeps instances for the next job"
    # The wait for an instance may be what the money is paid for.
    yield Finding(low.span, message, help_, fix=Fix(low.span, "0", safe=False))
