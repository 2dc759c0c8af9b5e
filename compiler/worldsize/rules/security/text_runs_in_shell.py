"""The command uses a value that the shell would execute or that ends its quotation."""

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
        obeyed = None
        if use.quote != "'":
            obeyed = next((sign for sign in ("$(", "`") if sign in use.value), None)
        if obeyed is None and use.quote and use.quote in use.value:
            obeyed = use.quote
        if obeyed is not None and use.argument.span is not None:
            shown = "a back-tick" if obeyed == "`" else f"`{obeyed}`"
            message = f"`{use.name}` contains {shown}, which the shell interprets in the command"
            help_ = "leave it out of the value, or let the script read the text from a file"
            yield Finding(use.argument.span, message, help_)
