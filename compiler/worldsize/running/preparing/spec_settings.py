"""``--set step.name=value`` for a spec: written into its text before it is planned.

So everything that the plan derives follows the new value, and what is wrong with it is found by the same
checks as in the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from worldsize import yaml
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.secrecy.masking import HIDDEN
from worldsize.secrecy.names import is_secret
from worldsize.yaml.scalars import resolve


def apply(path: Path, settings: Mapping[str, str]) -> tuple[str, list[Problem]]:
    """The text of a spec with other inputs.

    Args:
        path: The spec.
        settings: Values by ``step.input``.

    Returns:
        The text, and what is wrong with the settings themselves.
    """
    document = yaml.load(path)
    problems: list[Problem] = []
    for name, value in settings.items():
        edited = _edited(document, name, value)
        if isinstance(edited, Problem):
            problems.append(edited)
        else:
            document = yaml.load(path, edited)
    return document.text, problems


def _edited(document: yaml.Document, name: str, value: str) -> str | Problem:
    steps = _under(document.root, "steps")
    if not isinstance(steps, yaml.Mapping):
        return document.text  # what is wrong with the spec is found when it is checked
    step_name, _, port = name.partition(".")
    step = _under(steps, step_name)
    shown = HIDDEN if is_secret(name) else value[:80]
    span = Span(f"--set {name}={shown}", 1, 1, 1, 1)
    if not isinstance(step, yaml.Mapping) or not port:
        help_ = did_you_mean(step_name, list(steps)) or "steps stand under `steps:`"
        if step is not None:
            help_ = f"write `--set {step_name}.INPUT=…`"
        elif not port and (owner := _owner(steps, name)) is not None:
            help_ = f"did you mean `--set {owner}.{name}={shown}`?"
        message = f"`{name}` names no input of a step, such as `{next(iter(steps), 'train')}.epochs`"
        return Problem("run-refused", span, message, help_)
    given = _under(step, "with")
    if not (_inside(step, steps) and (given is None or _inside(given, step))):
        message = f"`with:` of step `{step_name}` is shared with another step by an alias"
        return Problem("run-refused", span, message, "change it in the file")
    if "uses" not in step and not (isinstance(given, yaml.Mapping) and port in given):
        message = f"step `{step_name}` has no input `{port}`"  # its command reads no other
        names = list(given) if isinstance(given, yaml.Mapping) else []
        return Problem("run-refused", span, message, did_you_mean(port, names) or "declare it under `with:`")
    edited = _with(document.text, step, given, port, _written(value))
    message = f"`{name}` is no single value in the file"
    return Problem("run-refused", span, message, "change it there") if edited is None else edited


def _owner(steps: yaml.Mapping, name: str) -> str | None:
    """The first step that gives an input of this name."""
    return next(
        (step for step in steps if _under(_under(_under(steps, step), "with"), name) is not None), None
    )


def _with(text: str, step: yaml.Mapping, given: yaml.Node | None, port: str, written: str) -> str | None:
    """The text with an entry of ``with:`` changed or added."""
    if given is None:
        return _inserted(text, step, f"with: {{{json.dumps(port)}: {written}}}")
    if not isinstance(given, yaml.Mapping):
        return None
    old = given.get(port)
    if old is None:
        return _inserted(text, given, f"{json.dumps(port)}: {written}")
    if not isinstance(old, yaml.Scalar) or not _inside(old, given):
        return None
    return text[: old.start] + written + text[old.end :]


def _under(node: yaml.Node | None, key: str) -> yaml.Node | None:
    return node.get(key) if isinstance(node, yaml.Mapping) else None


def _inside(node: yaml.Node, around: yaml.Node) -> bool:
    return around.start <= node.start and node.end <= around.end


def _written(value: str) -> str:
    """A value as YAML: numbers and booleans as they are, text in quotes."""
    return json.dumps(value) if isinstance(resolve(value), str) else value


def _inserted(text: str, mapping: yaml.Mapping, entry: str) -> str:
    """The text with an entry before the first of a mapping."""
    own = [key.start for key, _ in mapping.entries if mapping.start <= key.start < mapping.end]
    if mapping.flow:
        at = mapping.start + 1
        return f"{text[:at]}{entry}{', ' if mapping.entries else ''}{text[at:]}"
    at = min(own)
    indent = at - (text.rfind("\n", 0, at) + 1)
    return f"{text[:at]}{entry}\n{' ' * indent}{text[at:]}"
