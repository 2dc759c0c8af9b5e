"""A cluster has a minimum of instances above its maximum."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.job import Compute
from worldsize.base.problem import Finding, Related
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context

_DEFAULT_MAXIMUM = 4  # of the client, where the file has none


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    low = compute.raw.get("min_instances") if compute.raw is not None else None
    high = compute.raw.get("max_instances") if compute.raw is not None else None
    least = literals.parse_number(low.value) if isinstance(low, Scalar) else None
    if least is None or not isinstance(low, Scalar):
        return
    most = literals.parse_number(high.value) if isinstance(high, Scalar) else None
    most = _DEFAULT_MAXIMUM if high is None else most
    if most is not None and least > most:
        by_default = " by default" if high is None else ""
        message = f"`min_instances` is {low.text} but `max_instances` is {most}{by_default}"
        related = (Related(high.span, "the maximum"),) if high is not None else ()
        yield Finding(low.span, message, "swap the two, or correct one of them", related=related)
