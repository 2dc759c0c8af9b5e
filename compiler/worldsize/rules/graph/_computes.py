"""Computes: `local` in a pipeline, names that Azure ML does not allow, names without ``azureml:``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.job import Compute
from worldsize.azureml.model import Job
from worldsize.base.problem import Fix, Problem
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_NEW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")  # what a compute can be created with
_WITHOUT_PREFIX = frozenset({"local", "serverless"})


def check_job(context: Context, job: Job) -> Iterator[Problem]:
    for node in _find_computes(job):
        if node.text not in _WITHOUT_PREFIX and _NAME.fullmatch(node.text):
            written = f"azureml:{node.text}"
            message = f"`{node.text}` has no `azureml:`; Azure ML finds the same compute without it"
            fix = Fix(node.span, written)
            yield Problem("compute-without-prefix", node.span, message, f"write `{written}`", fix=fix)
        if node.text == "local" and job.type == "pipeline":
            message = "`local` is for jobs outside a pipeline; a pipeline step needs a compute"
            help_ = "write `azureml:NAME` with the name of a cluster, or `serverless`"
            yield Problem("compute-name", node.span, message, help_)
        name = node.text.removeprefix("azureml:")
        if "/" in name or "${{" in name or _NAME.fullmatch(name) or _is_placeholder(name):
            continue
        start = len(node.text) - len(name)
        span = node.subspan(start, len(node.text)) if name else node.span
        message = f"`{name}` cannot be the name of a compute"
        yield Problem("compute-name", span, message, "use letters, digits and `-`")


def check_compute(context: Context, compute: Compute) -> Iterator[Problem]:
    node = compute.raw.get("name") if compute.raw is not None else None
    if isinstance(node, Scalar) and node.text and not _NEW_NAME.fullmatch(node.text):
        message = f"`{node.text}` cannot be the name of a compute"
        yield Problem("compute-name", node.span, message, "use letters, digits and `-`; start with a letter")


def _find_computes(job: Job) -> Iterator[Scalar]:
    """The texts that name computes, in the steps of a job and in the job itself."""
    for field in [job.compute, *(step.compute for step in job.steps.values())]:
        # A step of a spec names a profile instead, and the profile its cluster.
        if field is not None and isinstance(field.node, Scalar) and field.node.text == field.value:
            yield field.node


def _is_placeholder(name: str) -> bool:
    """Whether a name has to be filled in, such as ``<name of the cluster>`` in a template."""
    return name.startswith("<") and name.endswith(">")
