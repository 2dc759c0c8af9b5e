"""A binding to another step has text around it.

A binding must be the whole value; only ``${{plan.NAME}}`` may stand inside a text.

Why: Azure ML does not resolve it, and the script gets the braces as a path.

Bad::

    shards: "${{parent.jobs.prepare.outputs.shards}}/train"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: Bind it alone and join the path inside the script.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import binding
from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import unbound_texts
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Scalar

RULE = Rule("WS624", "binding-in-text", "error", since="0.1.0", summary="a binding with text around it")


_WHOLE = "${{parent.jobs.", "${{parent.outputs."


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for node in unbound_texts(job):
        yield from _around(node)


def _around(node: Scalar) -> Iterator[Problem]:
    if "${{" not in node.text:
        return
    for found in binding.find(node.text):
        if str(found).startswith(_WHOLE):
            message = f"`{found}` has text around it, and a binding must be the whole value"
            help_ = "bind it alone and join the path inside the script"
            yield RULE.problem(node.subspan(found.start, found.end), message, help_)
            return
