"""A compute is named without ``azureml:``.

Azure ML takes such a text for a virtual cluster and passes it on as it stands.

Why: A cluster of the workspace is not found under the bare name.

Bad::

    compute: cpu-cluster

Good::

    compute: azureml:cpu-cluster

Fix: Write ``azureml:`` before the name.

Source: azure-ai-ml, the field ``compute``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Fix, Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import computes
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS637", "compute-without-prefix", "warning", since="0.1.0", summary="a compute without `azureml:`"
)


_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_WORDS = frozenset({"local", "serverless"})


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for node in computes(job):
        if node.text not in _WORDS and _NAME.fullmatch(node.text):
            written = f"azureml:{node.text}"
            message = f"`{node.text}` without `azureml:` is taken for a virtual cluster"
            yield RULE.problem(node.span, message, f"write `{written}`", fix=Fix(node.span, written))
