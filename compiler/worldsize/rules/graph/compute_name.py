"""A compute name has characters that Azure ML does not allow."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph._common import find_computes

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for node in find_computes(job):
        name = node.text.removeprefix("azureml:")
        if "/" in name or "${{" in name or _NAME.fullmatch(name) or _is_blank_to_fill(name):
            continue
        start = len(node.text) - len(name)
        span = node.subspan(start, len(node.text)) if name else node.span
        message = f"`{name}` cannot be the name of a compute"
        yield Finding(span, message, "names have letters, digits and `-`")


def _is_blank_to_fill(name: str) -> bool:
    """``<name of the cluster>`` in a template, which somebody fills in before the job is submitted."""
    return name.startswith("<") and name.endswith(">")
