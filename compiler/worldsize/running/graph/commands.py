"""The command of a step as it will be filled in: old spellings rewritten, every placeholder accounted for."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from worldsize.azureml import binding
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Component, Field
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.running.starting.sources import Source
from worldsize.yaml import Scalar

# azure-ai-ml 1.35.2, `map_single_brackets_and_warn`; so `${inputs.x}` keeps its dollar sign.
_OLD = re.compile(r"(?<!\{)\{(inputs|outputs|search_space)\.([^{}]*)\}(?!\})")


def modern(component: Component) -> Component:
    """A standalone job's component, with ``{inputs.x}`` written as ``${{inputs.x}}``."""
    command = component.command
    if command is None or not isinstance(command.value, str) or _OLD.search(command.value) is None:
        return component
    text = _OLD.sub(r"${{\1.\2}}", command.value)
    return replace(component, command=Field(text, command.span, command.key_span, None))


def fault(
    component: Component,
    inputs: Mapping[str, Source | None],
    outputs: Collection[str],
    searched: Collection[str],
) -> tuple[str, str, Span | None] | None:
    """The first placeholder of a command that nothing would replace, so that the shell would stumble over it.

    Args:
        component: The component.
        inputs: The step's inputs; None is one without a value.
        outputs: The step's outputs.
        searched: What a sweep varies.

    Returns:
        The message, the help and the place; None where all is well.
    """
    command = component.command
    if command is None or not isinstance(command.value, str):
        return None
    template = binding.parse(command.value)
    guarded = {found.start for part in template.sections for found in part.expressions}
    for found in template.expressions:
        said = _unfilled(found, inputs, outputs, searched, guarded=found.start in guarded)
        if said is not None:
            node = command.node
            span = node.subspan(found.start, found.end) if isinstance(node, Scalar) else command.span
            return *said, span
    return None


def _unfilled(
    found: Expression,
    inputs: Mapping[str, Source | None],
    outputs: Collection[str],
    searched: Collection[str],
    *,
    guarded: bool,
) -> tuple[str, str] | None:
    known: dict[str, Collection[str]] = {
        "inputs": {*inputs, *searched},
        "outputs": outputs,
        "search_space": searched,
    }
    names, port = known.get(found.scope), found.port
    if names is None or port is None:
        return f"`{found}` in the command is replaced by nothing", "write `${{inputs.x}}` or `${{outputs.y}}`"
    if port not in names:
        what = {"inputs": "input", "outputs": "output", "search_space": "entry of `search_space`"}[
            found.scope
        ]
        help_ = did_you_mean(port, names) or f"declare it under `{found.scope}:`"
        return f"`{found}` in the command names no {what}", help_
    if found.scope == "inputs" and port not in searched and inputs.get(port) is None and not guarded:
        help_ = f"write `$[[--{port} {found}]]`, which vanishes without a value"
        return f"`{found}` in the command has no value here", help_
    return None
