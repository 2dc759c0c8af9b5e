"""The VM size is not in the catalogue.

The number of GPUs comes from the VM size. The catalogue is looked up without regard to case.

Why: Nothing about GPUs, retirement or InfiniBand can be checked for it; a misspelt size fails when
the cluster is made.

Bad::

    instance_type: Standard_NC96ads_A100_v5

Good::

    instance_type: Standard_NC96ads_A100_v4

Fix: Correct the name; the help offers the nearest one.

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
from worldsize.rules.topology._sizes import looks_wrong, named_here

RULE = Rule(
    "WS201", "vm-size-unknown", "warning", since="0.1.0", summary="a VM size that the catalogue does not know"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _unknown(context, job)


@RULE.checks(Compute)
def check_compute(context: Context, compute: Compute) -> Iterator[Problem]:
    yield from _unknown(context, compute)


def _unknown(context: Context, subject: Job | Compute) -> Iterator[Problem]:
    for named in named_here(context, subject):
        if context.vm_size(named.name) is None and looks_wrong(named.name):
            from worldsize.facts import vm_sizes  # noqa: PLC0415 - only a fault needs the list of names

            near = vm_sizes.suggest(named.name)
            message = f"`{named.name}` is not in the catalogue of VM sizes, so its GPUs are unknown"
            help_ = f"did you mean `{near}`?" if near else "check the name with `az ml compute list-sizes`"
            yield RULE.problem(named.span, message, help_)
