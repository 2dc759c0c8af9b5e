"""The VM size was retired: no instance of it can be had."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.job import Compute
from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.topology._sizes import find_size_names, suggest_replacement


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    yield from _retired(context, job)


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    yield from _retired(context, compute)


def _retired(context: Context, subject: Job | Compute) -> Iterator[Finding]:
    for named in find_size_names(context, subject):
        size = context.vm_size(named.name)
        if size is not None and size.status == "retired":
            day = size.retirement_date
            when = f"Azure retired it on {day}" if day else "it no longer deploys"
            message = f"no instance of `{named.name}` can be had: {when}"
            yield Finding(named.span, message, suggest_replacement(size))
