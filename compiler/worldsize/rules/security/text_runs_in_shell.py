"""The command uses a value that the shell would execute or that ends its quotation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from worldsize.azureml.model import Job, Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.security import text_splits_in_shell


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(text_splits_in_shell.find_shell_uses(step))


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    yield from _judge(use for _, use in text_splits_in_shell.find_bound_uses(job))


def _judge(uses: Iterable[text_splits_in_shell.ShellUse]) -> Iterator[Finding]:
    for use in uses:
        interpreted = None
        if use.quote != "'":
            interpreted = next((sign for sign in ("$(", "`") if sign in use.value), None)
        if interpreted is None and use.quote and use.quote in use.value:
            interpreted = use.quote
        if interpreted is not None and use.argument.span is not None:
            shown = "a back-tick" if interpreted == "`" else f"`{interpreted}`"
            message = f"`{use.name}` contains {shown}, which the shell interprets in the command"
            help_ = "leave it out of the value, or let the script read the text from a file"
            yield Finding(use.argument.span, message, help_)
