"""The VM size was retired: no instance of it can be had.

The message gives the day.

Why: The job waits in the queue for a node that never comes.

Bad::

    instance_type: Standard_NC24s_v3

Good::

    instance_type: Standard_NC96ads_A100_v4

Fix: Choose a current size with as many GPUs.

Source: The catalogue of VM sizes, ``compiler/worldsize/facts/vm_sizes.csv``, each row with its
source.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.compute import Compute
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.topology._sizes import named_here, replacement

RULE = Rule("WS202", "vm-size-retired", "error", since="0.1.0", summary="a VM size that Azure has retired")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _retired(context, job)


@RULE.checks(Compute)
def check_compute(context: Context, compute: Compute) -> Iterator[Problem]:
    yield from _retired(context, compute)


def _retired(context: Context, subject: Job | Compute) -> Iterator[Problem]:
    for named in named_here(context, subject):
        size = context.vm_size(named.name)
        if size is not None and size.status == "retired":
            day = size.retirement_date
            when = f"Azure retired it on {day}" if day else "it no longer deploys"
            message = f"no instance of `{named.name}` can be had: {when}"
            yield RULE.problem(named.span, message, replacement(size))
