"""Checkpoints go to ``./outputs`` of the job rather than to a mounted output.

``./outputs`` belongs to one run. When the node is taken away or the job is submitted again, the new
process starts with an empty folder.

Why: A job that could go on from its last checkpoint starts from the first step.

Bad::

    command: python -m digits.train --checkpoint-dir ./outputs/checkpoints

Good::

    command: python -m digits.train --checkpoint-dir ${{outputs.checkpoints}}

Fix: Declare an output of type ``uri_folder`` with a ``path`` of its own, and write to it.

Source: Microsoft Learn, Optimize checkpoint performance and low-priority compute for Azure ML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Step
from worldsize.diagnostics.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Scalar

RULE = Rule(
    "WS721",
    "checkpoints-in-outputs",
    "warning",
    since="0.1.0",
    summary="checkpoints written to `./outputs`",
)
_OPTION = re.compile(
    r"--?(?P<option>[\w-]*(?:checkpoint|ckpt)[\w-]*)(?:=|\s+)[\"']?(?P<path>(?:\./)?outputs(?:/[\w./-]*)?)(?=[\s\"']|$)",
    re.IGNORECASE,
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    command = step.component.command if step.component else None
    node = command.node if command is not None else None
    if not isinstance(node, Scalar):
        return
    for found in _OPTION.finditer(node.text):
        message = f"checkpoints go to `{found['path']}`, which a restarted or resubmitted job does not see"
        help_ = f"declare an output and write `--{found['option']} ${{{{outputs.checkpoints}}}}`"
        yield RULE.problem(node.subspan(*found.span("path")), message, help_)
