"""Azure has announced the day on which the VM size is retired."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.job import Compute
from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.topology._sizes import find_size_names


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    yield from _retiring(context, job)


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    yield from _retiring(context, compute)


def _retiring(context: Context, subject: Job | Compute) -> Iterator[Finding]:
    for named in find_size_names(context, subject):
        size = context.vm_size(named.name)
        if size is not None and size.status == "retiring":
            day = size.retirement_date
            message = f"`{named.name}` will be retired by Azure on {day}"
            yield Finding(named.span, message, "move to a current size before that day")
