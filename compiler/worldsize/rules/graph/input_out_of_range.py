"""A number is below the minimum or above the maximum that the component declares.

``min`` and ``max`` stand in the component's file.

Why: Azure ML checks the range only for literals in some places, and the script meets the value.

Bad::

    validation_fraction: 1.5

Good::

    validation_fraction: 0.2

Fix: Write a number within the range.

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
    "WS614", "input-out-of-range", "error", since="0.1.0", summary="an input outside its declared range"
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _values.faults(context, job, RULE.slug)


@RULE.checks(Component)
def check_defaults(context: Context, component: Component) -> Iterator[Problem]:
    yield from _values.defaults(component, RULE.slug)
