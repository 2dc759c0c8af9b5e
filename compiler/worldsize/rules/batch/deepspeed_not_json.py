"""The DeepSpeed configuration cannot be read.

A value of Python, single quotes, a missing comma: no reader takes them. A comment or a comma too many
counts here where the file is read as strict JSON. So does an input ``ds_config`` that names no text.

Why: Every rank stops before it has read a single setting.

Bad::

    "enabled": True

Good::

    "enabled": true

Fix: Write what the help says at the place.

Source: RFC 8259.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.base.problem import Problem
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS351",
    "deepspeed-not-json",
    "error",
    since="0.1.0",
    summary="a DeepSpeed configuration that is no JSON",
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    yield from _deepspeed.faults(RULE, context, job, "syntax")
    for span, message in _deepspeed.unreadable(context, job):
        yield RULE.problem(span, message, "name the file of the configuration, saved as UTF-8")
