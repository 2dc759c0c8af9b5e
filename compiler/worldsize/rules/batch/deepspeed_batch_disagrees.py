"""`train_batch_size` of the DeepSpeed configuration is not micro-batch × accumulation × processes.

DeepSpeed computes what is left out of the three from the others and the number of processes, and refuses
what does not fit. A world size that is seen as 1 shows here too: the numbers then fit another count of
processes.

Why: Every rank stops with an assertion after the cluster has started.

Bad::

    "train_batch_size": 256

Good::

    "train_batch_size": 512

Fix: Write the product, leave one of the three out, or start as many processes as the numbers are meant for.

Source: DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS310",
    "deepspeed-batch-disagrees",
    "error",
    since="0.1.0",
    summary="a DeepSpeed batch that its parts do not make",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "batch")
