"""The command of a component continues a line with a backslash."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component, Job
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Mapping
from worldsize.rules.context import Context
from worldsize.rules.graph import _command

_BROKEN = re.compile(r"\\[ \t]*\r?\n")


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    if component.path is not None:
        yield from _check_command(context, component)


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    """Check the commands inside the steps of a pipeline; that of a standalone job is run by bash as it is."""
    if isinstance(job.raw, Mapping) and "jobs" not in job.raw and "steps" not in job.raw:
        return
    for step in job.steps.values():
        if step.component is not None and step.component.path is None:
            yield from _check_command(context, step.component)


def _check_command(context: Context, component: Component) -> Iterator[Finding]:
    for text in _command.find_texts(context, component):
        backslash = _BROKEN.search(text.node.text)
        if backslash is not None and text.key == "command":
            message = "a backslash at the end of a line does not continue the command of a component"
            how = "which folds the lines into one" if text.node.style != ">" else "indent its lines alike"
            help_ = f"write `command: >-`, {how}, and remove the backslashes"
            yield Finding(text.span(backslash.start(), backslash.start() + 1), message, help_)
            return
