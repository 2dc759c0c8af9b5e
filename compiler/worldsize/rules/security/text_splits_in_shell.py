"""A text with blanks or shell signs is pasted into the command without quotation marks.

Azure ML puts the value into the command line as it is. Without quotes the shell splits it at blanks and
obeys ``;``, ``&``, ``|``, ``<``, ``>``, ``*`` and brackets.

Why: The script gets half the text and arguments that it does not know, or the shell runs the rest.

Bad::

    command: python -m digits.train --title ${{inputs.title}}

Good::

    command: python -m digits.train --title "${{inputs.title}}"

Fix: Put the expression into double quotation marks.

Source: azure-ai-ml: command placeholders are replaced, not quoted; POSIX shell, 2.2 Quoting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from worldsize.azureml.model import Job, Step
from worldsize.diagnostics.problem import Problem, Related
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.security import _shell
from worldsize.yaml.nodes import Scalar

RULE = Rule(
    "WS803",
    "text-splits-in-shell",
    "warning",
    since="0.1.0",
    summary="a text with blanks or shell signs outside of quotation marks",
)
_SIGN = re.compile(r"[;&|<>*?()'\"]|\[|(?<=\S)\s+(?=\S)")
_OPTIONS = re.compile(r"\s*--?[A-Za-z]")  # `--lr 0.1 --epochs 3` is meant to be split

_ECHO = re.compile(r"(?:^|[;&|\n])\s*echo\b[^;&|\n]*\Z")  # prints its words with blanks between them again


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    yield from _judge((step, use) for use in _shell.uses(step))


@RULE.checks(Job)
def check_job(context: Context, job: Job) -> Iterator[Problem]:
    yield from _judge(_shell.bound_uses(job))


def _judge(uses: Iterable[tuple[Step, _shell.Use]]) -> Iterator[Problem]:
    for step, use in uses:
        sign = _SIGN.search(use.value)
        if use.quote or sign is None or _OPTIONS.match(use.value) or "`" in use.value or "$(" in use.value:
            continue
        command = step.component.command if step.component else None
        if command is not None and _ECHO.search(command.value, 0, use.expression.start):
            continue
        what = f"`{sign[0].strip()}`" if sign[0].strip() else "a blank"
        message = f"`{use.name}` holds {what}, and the command uses it without quotation marks"
        help_ = f'write `"{use.expression}"` in the command'
        related: tuple[Related, ...] = ()
        if command is not None and isinstance(command.node, Scalar) and command.node.text == command.value:
            place = command.node.subspan(use.expression.start, use.expression.end)
            related = (Related(place, "pasted in here as it is"),)
        assert use.given.span is not None
        yield RULE.problem(use.given.span, message, help_, related=related)
