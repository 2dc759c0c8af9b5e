"""``--set``: other values for the inputs of a spec, written into its text so that the plan follows."""

from __future__ import annotations

import json
from collections.abc import Mapping

from worldsize.azureml.component import load_component
from worldsize.azureml.files import Files
from worldsize.base import resources
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import closest, did_you_mean
from worldsize.documents import yaml
from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.documents.secrecy.names import is_secret
from worldsize.documents.yaml.edit import insert_entry
from worldsize.documents.yaml.scalars import resolve_scalar

_PIPELINE = "inputs"  # `inputs.epochs` names an input of the pipeline


def override_spec(
    document: yaml.Document, settings: Mapping[str, str]
) -> tuple[yaml.Document, list[Problem]]:
    """A spec with other inputs, parsed again, and what is wrong with the settings.

    A setting is named by ``inputs.NAME`` for an input of the pipeline, or by ``STEP.NAME`` for one of a step.
    """
    problems: list[Problem] = []
    for name, value in settings.items():
        edited = _edit_input(document, name, value)
        if isinstance(edited, Problem):
            problems.append(edited)
        else:
            document = yaml.load(document.path, edited)
    return document, problems


def _edit_input(document: yaml.Document, name: str, value: str) -> str | Problem:
    steps = _get_child(document.root, "steps")
    if not isinstance(steps, yaml.Mapping):
        return document.text  # the check of the spec reports the fault
    step_name, _, port = name.partition(".")
    step = _get_child(steps, step_name)
    shown = HIDDEN if is_secret(name) else value[:80]
    span = Span(f"--set {name}={shown}", 1, 1, 1, 1)
    declared = _get_child(document.root, _PIPELINE)
    if step_name == _PIPELINE and step is None and port:
        return _edit_pipeline_input(document, declared, port, value, span)
    if not isinstance(step, yaml.Mapping) or not port:
        message = f"`{name}` names no input of a step: write `STEP.INPUT`"
        help_ = _suggest_input(steps, declared, name, shown)
        return Problem("run-refused", span, message, help_)
    arguments = _get_child(step, "with")
    if not (_lies_in(step, steps) and (arguments is None or _lies_in(arguments, step))):
        message = f"`with:` of step `{step_name}` is shared with another step by an alias"
        return Problem("run-refused", span, message, "change it in the file")
    if "uses" not in step and not (isinstance(arguments, yaml.Mapping) and port in arguments):
        message = f"step `{step_name}` has no input `{port}`"  # its command cannot read it
        names = list(arguments) if isinstance(arguments, yaml.Mapping) else []
        help_ = did_you_mean(port, names) or "declare it under `with:`"
        if _get_child(_get_child(step, "scale"), port) is not None:
            help_ = f"`{port}` stands under `scale:` of the step: change it in the file"
        return Problem("run-refused", span, message, help_)
    edited = _edit_with(document.text, step, arguments, port, _to_yaml(value))
    message = f"`{name}` is not a single value in the file"
    return Problem("run-refused", span, message, "change it there") if edited is None else edited


def _suggest_input(steps: yaml.Mapping, declared: yaml.Node | None, name: str, value: str) -> str:
    """The setting that may be meant."""
    step_name, _, port = name.partition(".")
    if port:
        return did_you_mean(step_name, list(steps)) or "steps stand under `steps:`"
    if _get_child(declared, name) is not None:
        return f"did you mean `--set {_PIPELINE}.{name}={value}`?"
    if name in steps:
        return f"write `--set {name}.INPUT=…`"
    owner = _find_owner(steps, name)
    if owner is not None:
        return f"did you mean `--set {owner}.{name}={value}`?"
    known = [f"{step}.{each}" for step in steps for each in _list_inputs(_get_child(steps, step))]
    near = closest(name, dict.fromkeys(each.partition(".")[2] for each in known))
    full = next((each for each in known if each.partition(".")[2] == near), None)
    return f"did you mean `--set {full}={value}`?" if full else f"no step has an input `{name}`"


def _edit_pipeline_input(
    document: yaml.Document, declared: yaml.Node | None, name: str, value: str, span: Span
) -> str | Problem:
    """The text with another default or path of an input of the pipeline."""
    names = list(declared) if isinstance(declared, yaml.Mapping) else []
    if not isinstance(declared, yaml.Mapping) or name not in declared:
        help_ = did_you_mean(name, names) or f"declare it under `{_PIPELINE}:` of the spec"
        return Problem("run-refused", span, f"the pipeline has no input `{name}`", help_)
    node, text, written = declared.get(name), document.text, _to_yaml(value)
    if isinstance(node, yaml.Mapping):
        kind = _get_child(node, "type")
        data = "path" in node or (
            isinstance(kind, yaml.Scalar) and kind.text not in ("string", "number", "integer", "boolean")
        )
        key = "path" if data and "default" not in node else "default"
        if isinstance(kind, yaml.Scalar) and (kind.text == "string" or key == "path"):
            written = json.dumps(value)
        current = node.get(key)
        if current is None:
            return insert_entry(text, node, f"{key}: {written}")
        node = current
    elif isinstance(node, yaml.Scalar) and isinstance(node.value, str):
        written = json.dumps(value)
    if not isinstance(node, yaml.Scalar) or not _lies_in(node, declared):
        return Problem("run-refused", span, f"`{name}` is not a single value in the file", "change it there")
    return text[: node.start] + written + text[node.end :]


def _find_owner(steps: yaml.Mapping, name: str) -> str | None:
    """The first step that gives an input of this name, else the first that has it."""
    given = (
        step for step in steps if _get_child(_get_child(_get_child(steps, step), "with"), name) is not None
    )
    has = (step for step in steps if name in _list_inputs(_get_child(steps, step)))
    return next(given, None) or next(has, None)


def _list_inputs(step: yaml.Node | None) -> list[str]:
    """The inputs of a step that may be set: those that it gives, and those of its built-in component."""
    given, uses = _get_child(step, "with"), _get_child(step, "uses")
    names = list(given) if isinstance(given, yaml.Mapping) else []
    if isinstance(uses, yaml.Scalar) and uses.text in resources.component_names():
        component = load_component(resources.component_file(uses.text), Files())
        names += component.inputs if component is not None else ()
    return names


def _edit_with(
    text: str, step: yaml.Mapping, arguments: yaml.Node | None, port: str, written: str
) -> str | None:
    """The text with an entry of ``with:`` changed or added."""
    if arguments is None:
        return insert_entry(text, step, f"with: {{{json.dumps(port)}: {written}}}")
    if not isinstance(arguments, yaml.Mapping):
        return None
    old = arguments.get(port)
    if old is None:
        return insert_entry(text, arguments, f"{json.dumps(port)}: {written}")
    if not isinstance(old, yaml.Scalar) or not _lies_in(old, arguments):
        return None
    return text[: old.start] + written + text[old.end :]


def _get_child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    return node.get(key) if isinstance(node, yaml.Mapping) else None


def _lies_in(node: yaml.Node, outer: yaml.Node) -> bool:
    return outer.start <= node.start and node.end <= outer.end


def _to_yaml(value: str) -> str:
    """A value as YAML: numbers and booleans unchanged, text in quotes."""
    return json.dumps(value) if isinstance(resolve_scalar(value), str) else value
