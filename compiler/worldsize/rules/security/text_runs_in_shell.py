"""A text that the shell would run or break on is pasted into the command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from worldsize.azureml.model import Job, Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.security import _shell


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(_shell.find_shell_uses(step))


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    yield from _judge(use for _, use in _shell.find_bound_uses(job))


def _judge(uses: Iterable[_shell.ShellUse]) -> Iterator[Finding]:
    for use in uses:
        found = None
        if use.quote != "'":
            found = next((sign for sign in ("$(", "`") if sign in use.value), None)
        if found is None and use.quote and use.quote in use.value:
            found = use.quote
        if found is not None and use.given.span is not None:
            shown = "a back-tick" if found == "`" else f"`{found}`"
            message = f"`{use.name}` holds {shown}, which the shell obeys where the command uses it"
            help_ = "leave it out of the value, or let the script read the text from a file"
            yield Finding(use.given.span, message, help_)
