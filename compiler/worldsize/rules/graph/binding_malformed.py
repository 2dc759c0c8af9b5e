"""An expression is not closed, has single braces, or blanks inside.

An expression is ``${{…}}`` with two braces on each side and no blanks inside the dotted name.

Why: Azure ML takes it as plain text, and the command receives the braces.

Bad::

    shards: "${parent.jobs.prepare.outputs.shards}"

Good::

    shards: "${{parent.jobs.prepare.outputs.shards}}"

Fix: Write it as the help shows.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import binding, port_values
from worldsize.azureml.model import Component, Job
from worldsize.base.problem import Fix, Problem
from worldsize.rules.context import Context
from worldsize.rules.graph import _command
from worldsize.rules.graph._common import unbound_texts
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Scalar

RULE = Rule("WS620", "binding-malformed", "error", since="0.1.0", summary="an expression that is not one")


_LOST = "close it with `}}`, and leave no blanks inside the dotted name"


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for node in unbound_texts(job):
        yield from _plain(node)


def _plain(node: Scalar) -> Iterator[Problem]:
    """What is wrong with a text that is no binding but has parts of one."""
    if not isinstance(node.value, str) or "{" not in node.text:
        return
    text = node.text
    for start in binding.parse(text).unclosed:
        span = node.subspan(start, min(len(text), start + 3))
        yield RULE.problem(span, f"`{text[start : start + 40]}` is no expression", _LOST)
    found = port_values.SINGLE_BRACES.search(text)
    if found is not None:
        written = f"${{{{{found.group().lstrip('$').strip('{} ')}}}}}"
        span = node.subspan(found.start(), found.end())
        message = f"`{found.group()}` is plain text: an expression has two braces on each side"
        yield RULE.problem(span, message, f"write `{written}`", fix=Fix(span, written))


@RULE.checks(Component)
def check_command(context: Context, component: Component) -> Iterator[Problem]:
    for text in _command.texts(context, component):
        for start in text.template.unclosed:
            shown = text.node.text[start : start + 40].split("\n")[0]
            help_ = "close it with `]]`" if shown.startswith("$[[") else _LOST
            yield RULE.problem(text.span(start, start + 3), f"`{shown}` is never closed", help_)
        for found in port_values.SINGLE_BRACES.finditer(text.node.text):
            if found.group().startswith("$"):
                written = f"${{{{{found.group().lstrip('$').strip('{} ')}}}}}"
                span = text.span(found.start(), found.end())
                message = f"`{found.group()}` is a variable of the shell: an expression has two braces"
                yield RULE.problem(span, message, f"write `{written}`", fix=Fix(span, written))
