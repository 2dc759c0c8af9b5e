"""Finds the placeholders of templates: what they cause is no fault, and the file is said to be a template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.rules import registry

_PLACEHOLDER = re.compile(
    r"(?<!\$)\{\{(?!\s?parent\.)[^{}\n]{1,80}\}\}|\{%[^\n]{1,200}?%\}"  # Jinja, Mustache, cookiecutter
    r"|(?<![$\w])\{[A-Za-z_][\w-]{0,80}\}"  # str.format
    r"|<[ \t]{0,4}[A-Za-z][^<>|&;\n]{0,80}>"  # <fill in>
    r"|\b(?:(?:TODO|FIXME|TBD|CHANGE_?ME|REPLACE_?ME|FILL_?ME)(?:_\w{1,80})?|(?:YOUR|INSERT|PATH_TO)_\w{1,80})\b"
    r"|\byour[-_]\w{1,80}|\bpath/to/|\[[A-Z][A-Z _-]{2,80}\]|^[\"']?\.\.\.[\"']?$"
    r"|#\{[\w.-]{1,80}\}#|__[A-Z][A-Z0-9_]{0,80}__|%[A-Z_]{2,80}%|@[A-Z_]{2,80}@"  # replace tokens, sed
)
# Azure DevOps, envsubst. Among other words the shell fills them in.
_VARIABLE = re.compile(
    r"[^\s$]{0,80}(?P<name>\$\([A-Za-z][\w.-]{0,80}\)|\$(?!schema\b)\{?[A-Za-z_]\w{0,80}\}?)(?![{\w\[.])\S*"
)
# Rules over code have tokens in which these characters are code; a secret counts wherever it stands.
_FAMILIES = frozenset({"spec", "data", "graph", "schedule", "topology"})
_SLUGS = frozenset(
    {"environment-unpinned", "image-unpinned", "component-unpinned", "dependency-unpinned", "yaml-syntax"}
)


def leave_out_unfilled(problems: Iterable[Problem], sources: Mapping[str, Source]) -> list[Problem]:
    """Replace the problems whose token is a placeholder by one note in each file."""
    kept: list[Problem] = []
    notes: dict[str, tuple[Span, str]] = {}
    unreadable: set[str] = set()
    for problem in problems:
        placeholder = _find_placeholder(problem, sources)
        if placeholder is None:
            kept.append(problem)
            continue
        path = problem.span.path
        notes[path] = min(notes.get(path, (problem.span, placeholder)), (problem.span, placeholder))
        if problem.slug == "yaml-syntax":
            unreadable.add(path)
    kept = [each for each in kept if each.slug != "yaml-syntax" or each.span.path not in unreadable]
    return kept + [_describe(span, text, unreadable) for span, text in notes.values()]


def _find_placeholder(problem: Problem, sources: Mapping[str, Source]) -> str | None:
    span = problem.span
    source = sources.get(span.path)
    if source is None or not _may_be_unfilled(problem.slug):
        return None
    line = source.line(span.line)
    if problem.slug == "yaml-syntax":
        if "azureml" not in source.text:
            return None
    else:
        end = span.end_column - 1 if span.end_line == span.line else len(line)
        line = line[span.column - 1 : end]
    match = _PLACEHOLDER.search(line)
    if match is None and (variable := _VARIABLE.fullmatch(line)) is not None:
        return variable["name"]
    return match[0] if match else None


def _may_be_unfilled(slug: str) -> bool:
    rule = registry.find(slug)
    return slug in _SLUGS or (rule is not None and rule.family in _FAMILIES)


def _describe(span: Span, text: str, unreadable: set[str]) -> Problem:
    checked = "nothing in it is checked" if span.path in unreadable else "what depends on it is not checked"
    message = f"`{text}` is a placeholder, so this file is a template: {checked}"
    return Problem("template-not-filled", span, message, "check the file that is made from it")
