"""Azure has announced the day on which the VM size is retired.

After that day no instance of it can be had.

Why: A schedule or a cluster that works today stops then.

Bad::

    instance_type: Standard_HB120rs_v2

Good::

    instance_type: Standard_NC96ads_A100_v4

Fix: Move to a current size before that day.

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
from worldsize.rules.topology._sizes import named_here

RULE = Rule(
    "WS210", "vm-size-retiring", "warning", since="0.1.0", summary="a VM size that Azure is about to retire"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _retiring(context, job)


@RULE.checks(Compute)
def check_compute(context: Context, compute: Compute) -> Iterator[Problem]:
    yield from _retiring(context, compute)


def _retiring(context: Context, subject: Job | Compute) -> Iterator[Problem]:
    for named in named_here(context, subject):
        size = context.vm_size(named.name)
        if size is not None and size.status == "retiring":
            day = size.retirement_date
            message = f"`{named.name}` will be retired by Azure on {day}"
            yield RULE.problem(named.span, message, "move to a current size before that day")
