"""A binding has text around it."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import binding
from worldsize.azureml.model import Job, Keys
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context
from worldsize.rules.graph._common import find_unbound_texts

_WHOLE = frozenset({"parent.jobs", "parent.outputs"})


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for node in find_unbound_texts(job):
        yield from _around(node, job.keys)


def _around(node: Scalar, keys: Keys) -> Iterator[Finding]:
    if "${{" not in node.text:
        return
    for expression in binding.find_expressions(node.text):
        if expression.scope in _WHOLE or (
            expression.scope == "parent.inputs" and not keys.binds("parent.inputs")
        ):
            message = f"`{expression}` has text around it, but a binding must be the whole value"
            help_ = "bind it alone and join the path inside the script"
            yield Finding(node.subspan(expression.start, expression.end), message, help_)
            return
