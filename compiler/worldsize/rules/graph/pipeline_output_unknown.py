"""A step writes to an output that the pipeline does not declare."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Finding
from worldsize.base.suggest import did_you_mean
from worldsize.rules.context import Context
from worldsize.rules.graph._common import suggest_fix, text_node


def check_job(context: Context, job: Job) -> Iterator[Finding]:
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
                fix = suggest_fix(span, name, job.outputs)
                yield Finding(span, f"the pipeline has no output `{name}`", help_, fix=fix)
