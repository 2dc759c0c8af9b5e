"""A step writes to an output that the pipeline does not declare.

``${{parent.outputs.NAME}}`` reaches the ``outputs:`` of the pipeline in which the step stands, which
may be a pipeline component.

Why: The pipeline is refused, or the result is written where nobody looks for it.

Bad::

    model: ${{parent.outputs.final}}

Good::

    model: ${{parent.outputs.model}}

Fix: Correct the name, or declare the output.

Source: Azure ML's expression syntax, Microsoft Learn, Core YAML syntax.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.base.suggest import did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.graph._common import is_native, nearest, text_node
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS627",
    "pipeline-output-unknown",
    "error",
    since="0.1.0",
    summary="an output bound to an output that the pipeline does not have",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    if not is_native(job):
        return
    for step in job.steps.values():
        for field in step.outputs.values():
            bound = field.value.binding
            node = text_node(field.node)
            if bound is None or node is None or bound.value.scope != "parent.outputs":
                continue
            name = bound.value.port
            if name is not None and name not in job.outputs:
                help_ = (
                    did_you_mean(name, job.outputs) or f"declare `{name}` under `outputs:` of the pipeline"
                )
                span = node.subspan(*bound.value.part_range(2))
                fix = nearest(span, name, job.outputs)
                yield RULE.problem(span, f"the pipeline has no output `{name}`", help_, fix=fix)
