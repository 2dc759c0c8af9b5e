"""An input with ``enum`` is given another word.

The help lists the words.

Why: The job is refused at submission.

Bad::

    format: cvs

Good::

    format: csv

Fix: Write one of the words.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component, Job
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph import _values
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS615",
    "input-not-in-enum",
    "error",
    since="0.1.0",
    summary="an input that is none of the declared words",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _values.faults(context, job, RULE.slug)


@RULE.checks(Component)
def check_defaults(context: Context, component: Component) -> Iterator[Problem]:
    yield from _values.defaults(component, RULE.slug)
