"""The name of a compute has characters that no compute has.

Names of computes have letters, digits, ``-`` and ``_``.

Why: The job is refused after everything was uploaded.

Bad::

    compute: azureml:cpu cluster

Good::

    compute: azureml:cpu-cluster

Fix: Write the name of the compute.

Source: Microsoft Learn, Create an Azure Machine Learning compute cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import computes
from worldsize.rules.rule import Rule

RULE = Rule("WS636", "compute-name", "error", since="0.1.0", summary="a compute that cannot be named so")


_NAME = re.compile(r"[A-Za-z0-9][\w-]*")


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for node in computes(job):
        name = node.text.removeprefix("azureml:")
        if "/" in name or "${{" in name or _NAME.fullmatch(name) or _is_blank_to_fill(name):
            continue
        start = len(node.text) - len(name)
        span = node.subspan(start, len(node.text)) if name else node.span
        message = f"`{name}` cannot be the name of a compute"
        yield RULE.problem(span, message, "names have letters, digits and `-`")


def _is_blank_to_fill(name: str) -> bool:
    """``<name of the cluster>`` in a template, which somebody fills in before the job is submitted."""
    return name.startswith("<") and name.endswith(">")
