"""A cluster of GPUs has a minimum of instances, which run and cost money while no job does."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.job import Compute
from worldsize.base.problem import Finding, Fix
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
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
