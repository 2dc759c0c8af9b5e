"""A text that the shell would run or break on is pasted into the command.

``$(…)`` and back-ticks are run by the shell even inside double quotation marks; a quotation mark inside a
text that stands in the same marks ends them early.

Why: The script gets another text than the file gives, or the shell runs what was meant as data.

Bad::

    title: digits $(date)

Good::

    title: digits of 21 November

Fix: Leave these signs out of the value, or let the script read it from a file.

Source: azure-ai-ml: command placeholders are replaced, not quoted; POSIX shell, 2.2 Quoting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from worldsize.azureml.model import Job, Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.security import _shell

RULE = Rule(
    "WS804",
    "text-runs-in-shell",
    "warning",
    since="0.1.0",
    summary="a text that the shell would run, even in quotation marks",
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    yield from _judge(_shell.uses(step))


@RULE.checks(Job)
def check_job(context: Context, job: Job) -> Iterator[Problem]:
    yield from _judge(use for _, use in _shell.bound_uses(job))


def _judge(uses: Iterable[_shell.Use]) -> Iterator[Problem]:
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
            yield RULE.problem(use.given.span, message, help_)
