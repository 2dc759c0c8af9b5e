"""The binding of an output has blanks between the braces and the name.

Azure ML takes blanks in the binding of an input. That of an output with blanks it takes for a path.

Why: The output is written somewhere else, and the pipeline has nothing to show.

Bad::

    model: ${{ parent.outputs.model }}

Good::

    model: ${{parent.outputs.model}}

Fix: Remove the blanks.

Source: azure-ai-ml, whose pattern for the binding of an output has no place for blanks.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Fix, Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import is_native, text_node
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS631",
    "output-binding-blanks",
    "error",
    since="0.1.0",
    summary="blanks in the binding of an output, which lose it",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    if not is_native(job):
        return
    for step in job.steps.values():
        for field in step.outputs.values():
            bound, node = field.value.binding, text_node(field.node)
            if bound is None or node is None or bound.value.scope != "parent.outputs":
                continue
            written = str(bound.value)
            if node.text != written:
                message = f"with blanks inside, `{node.text}` is a path to Azure ML and the binding is lost"
                fix = Fix(node.span, written)
                yield RULE.problem(node.span, message, f"write `{written}`", fix=fix)
