"""The DeepSpeed configuration offloads to `nvme` and gives no folder of a local disk.

`nvme_path` is missing, or relative to wherever the job happens to run. DeepSpeed makes the folder where
there is none, so a wrong one lies on the system disk.

Why: The job stops at its start, or fills the system disk at the speed of one.

Bad::

    "offload_param": {"device": "nvme"}

Good::

    "offload_param": {"device": "nvme", "nvme_path": "/mnt/offload"}

Fix: Write the absolute path of a local disk, or offload to `cpu`.

Source: deepspeedai/DeepSpeed, issue 2624.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS345",
    "deepspeed-offload-path",
    "error",
    since="0.1.0",
    summary="offload to a disk without a path to it",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.problems(RULE, context, job, "path")
