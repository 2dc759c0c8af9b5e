"""The declarations of inputs and outputs: names, types, bounds of numbers, values, defaults of texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.fields import read_command
from worldsize.azureml.model import Component, Port
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Fix, Problem, relate
from worldsize.base.span import NOWHERE
from worldsize.documents.yaml.nodes import Scalar, find_node
from worldsize.rules.graph._common import span_of

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_OTHER = re.compile(r"\W", re.ASCII)
_RESERVED = frozenset({"path", "ld_library_path", "user", "logname", "home", "pwd", "shell"})
_MLDESIGNER = re.compile(r"\bmldesigner\s+execute\b")
_METHODS = frozenset(
    {"clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"}
)


def check_component(context: Tree, component: Component) -> Iterator[Problem]:
    yield from _check_all_names(component)
    yield from _check_input_names(component)
    yield from _check_outputs(component)
    for port in component.inputs.values():
        yield from _check_bounds(port)
        yield from _check_enum(port)
        yield from _check_text_default(port)


def _check_all_names(component: Component) -> Iterator[Problem]:
    for side, ports in (("inputs", component.inputs), ("outputs", component.outputs)):
        first: dict[str, str] = {}
        for name, port in ports.items():
            span = port.span or NOWHERE
            if not _NAME.fullmatch(name):
                message = f"`{name}` cannot be the name of an input or output"
                better = _OTHER.sub("_", name)
                better = better if not better[:1].isdigit() else f"_{better}"
                yield Problem("name-invalid", span, message, f"rename it, for example to `{better}`")
            before = first.setdefault(name.lower(), name)
            if before != name:
                related = relate(ports[before].span, f"`{before}` is declared here")
                message = f"the {side} `{before}` and `{name}` differ only in case"
                yield Problem("names-differ-by-case", span, message, "rename one of the two", related)


def _check_input_names(component: Component) -> Iterator[Problem]:
    for name, port in component.inputs.items():
        span = port.span or NOWHERE
        if name.lower() in _RESERVED:
            help_ = f"rename it, for example to `data_{name.lower()}`"
            message = f"the environment variable of input `{name}` would replace the system's"
            yield Problem("name-reserved", span, message, help_)
        if name in _METHODS and component.path is not None:
            message = f"in the SDK, `inputs.{name}` is a method of Python mappings, not this input"
            yield Problem("name-shadows-method", span, message, f"rename it, for example to `{name}_text`")


def _check_outputs(component: Component) -> Iterator[Problem]:
    for name, port in component.outputs.items() if component.type != "flow" else ():
        span = port.span or NOWHERE
        if port.type in literals.PRIMITIVES and not _may_be_value(component, name):
            message = f"output `{name}` is {literals.article(port.type)}, but outputs are files or folders"
            help_ = "write `type: uri_file`, and let the script write the value into that file"
            yield Problem("primitive-output", span, message, help_)
        if name in component.inputs and component.inputs[name].is_data and not component.inline:
            related = relate(component.inputs[name].span, "the input is declared here")
            help_ = f"rename one of the two, for example to `{name}_out`"
            message = f"`{name}` is the name of both an input and an output"
            yield Problem("name-of-input-and-output", span, message, help_, related)


def _may_be_value(component: Component, name: str) -> bool:
    """Whether an output controls the pipeline, or is a file that mldesigner writes from a function."""
    if _MLDESIGNER.search(read_command(component)):
        return True
    return find_node(component.raw, "outputs", name, "is_control") is not None


def _check_enum(port: Port) -> Iterator[Problem]:
    """Report an `enum` of a type other than text; the shape of the file covers values that are not text."""
    items = port.enum.value if port.enum is not None else None
    if not isinstance(items, list) or port.type not in ("number", "integer", "boolean"):
        return
    if all(isinstance(item, str) for item in items):
        message = f"`enum` is for inputs of type `string`, but `{port.name}` is {literals.article(port.type)}"
        help_ = f"write {'' if port.type == 'boolean' else '`min:` and `max:`, or '}`type: string`"
        span = (port.enum.key_span if port.enum is not None else None) or span_of(port.enum)
        yield Problem("enum-on-number", span, message, help_)


def _check_bounds(port: Port) -> Iterator[Problem]:
    low = literals.parse_number(port.min.value) if port.min else None
    high = literals.parse_number(port.max.value) if port.max else None
    if low is not None and high is not None and low > high:
        message = f"`{port.name}` has `min` {low} above `max` {high}"
        yield Problem("minimum-above-maximum", span_of(port.min), message, "swap the two")


def _check_text_default(port: Port) -> Iterator[Problem]:
    """Report a default of a text input that Azure ML reads as a number or a boolean, and so changes."""
    default = port.default
    if port.type != "string" or default is None or not isinstance(default.node, Scalar):
        return
    text, value = default.node.text, default.value
    # The schema of azure-ai-ml tries numbers before texts.
    number = value if isinstance(value, bool) or not isinstance(value, int) else float(value)
    read = str(number) if isinstance(value, (int, float)) else text
    if read != text:
        message = f"default `{text}` of the string `{port.name}` is not quoted, so it becomes `{read}`"
        # The script may rely on what it gets today.
        fix = Fix(span_of(default), f'"{text}"', safe=False)
        yield Problem("default-not-text", span_of(default), message, f'quote it: "{text}"', fix=fix)
