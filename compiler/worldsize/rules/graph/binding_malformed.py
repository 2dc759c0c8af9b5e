"""An expression is not closed, has single braces, or contains spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml import binding, literals
from worldsize.azureml.model import Component, Job
from worldsize.base.problem import Finding, Fix
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context
from worldsize.rules.graph import _command
from worldsize.rules.graph._common import find_unbound_texts

# `{{parent.inputs.x}}`: no language of templates has such names.
_WITHOUT_DOLLAR = re.compile(r"(?<!\$)\{\{\s{0,8}(parent\.[\w.]{1,200})\s{0,8}\}\}")
_LOST = "close it with `}}`, and leave no blanks inside the dotted name"


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    for node in find_unbound_texts(job):
        yield from _plain(node)


def _plain(node: Scalar) -> Iterator[Finding]:
    """What is wrong with a text that is not a binding but has parts of one."""
    if not isinstance(node.value, str) or "{" not in node.text:
        return
    text = node.text
    for start in binding.parse_template(text).unclosed:
        span = node.subspan(start, min(len(text), start + 3))
        yield Finding(span, f"`{text[start : start + 40]}` is not an expression", _LOST)
    bare = _WITHOUT_DOLLAR.search(text)
    if bare is not None:
        span, written = node.subspan(bare.start(), bare.end()), f"${{{{{bare[1]}}}}}"
        message = f"`{bare[0]}` is plain text: an expression starts with `$`"
        yield Finding(span, message, f"write `{written}`", fix=Fix(span, written))
    braces = literals.SINGLE_BRACES.search(text)
    if braces is not None:
        written = f"${{{{{braces.group().lstrip('$').strip('{} ')}}}}}"
        span = node.subspan(braces.start(), braces.end())
        message = f"`{braces.group()}` is plain text: an expression has two braces on each side"
        fix = Fix(span, written, safe=braces.group().startswith("$"))
        yield Finding(span, message, f"write `{written}`", fix=fix)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for text in _command.find_texts(context, component):
        for start in text.template.unclosed:
            shown = text.node.text[start : start + 40].split("\n")[0]
            help_ = "close it with `]]`" if shown.startswith("$[[") else _LOST
            yield Finding(text.span(start, start + 3), f"`{shown}` is never closed", help_)
        for braces in literals.SINGLE_BRACES.finditer(text.node.text):
            if braces.group().startswith("$"):
                written = f"${{{{{braces.group().lstrip('$').strip('{} ')}}}}}"
                span = text.span(braces.start(), braces.end())
                message = f"`{braces.group()}` is a variable of the shell: an expression has two braces"
                yield Finding(span, message, f"write `{written}`", fix=Fix(span, written))
