"""The VM size is not in the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.job import Compute
from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.topology._sizes import find_size_names, looks_wrong


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    yield from _unknown(context, job)


def check_compute(context: Context, compute: Compute) -> Iterator[Finding]:
    yield from _unknown(context, compute)


def _unknown(context: Context, subject: Job | Compute) -> Iterator[Finding]:
    for named in find_size_names(context, subject):
        if context.vm_size(named.name) is None and looks_wrong(named.name):
            from worldsize.facts import vm_sizes  # only a fault needs the list of names

            near = vm_sizes.suggest(named.name)
            message = f"`{named.name}` is not in the catalogue of VM sizes, so its GPUs are unknown"
            help_ = f"did you mean `{near}`?" if near else "check the name with `az ml compute list-sizes`"
            yield Finding(named.span, message, help_)
