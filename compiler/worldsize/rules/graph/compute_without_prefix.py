"""A compute name has no ``azureml:`` prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Fix
from worldsize.rules.context import Context
from worldsize.rules.graph._common import find_computes

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_WORDS = frozenset({"local", "serverless"})


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for node in find_computes(job):
        if node.text not in _WORDS and _NAME.fullmatch(node.text):
            written = f"azureml:{node.text}"
            message = f"`{node.text}` has no `azureml:`; Azure ML finds the same compute without it"
            yield Finding(node.span, message, f"write `{written}`", fix=Fix(node.span, written))
