"""The binding of an output has spaces inside the braces."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding, Fix
from worldsize.rules.context import Context
from worldsize.rules.graph._common import text_node


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for step in job.steps.values():
        for field in step.outputs.values():
            bound, node = field.value.binding, text_node(field.node)
            if bound is None or node is None or bound.value.scope != "parent.outputs":
                continue
            written = str(bound.value)
            if node.text != written:
                message = f"with blanks inside, `{node.text}` is a path to Azure ML and the binding is lost"
                fix = Fix(node.span, written)
                yield Finding(node.span, message, f"write `{written}`", fix=fix)
