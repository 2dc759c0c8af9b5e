"""``--set name=value``: other values for the inputs of a pipeline.

A setting is read like a value in the file, by YAML's rules, and checked against the type, range and
enumeration of each input that it reaches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize import api
from worldsize.api import Compiled
from worldsize.azureml import literals
from worldsize.azureml.component import load_component
from worldsize.azureml.files import Files
from worldsize.azureml.graph import is_inline
from worldsize.azureml.model import Argument, Binding, Data, Field, Job, Literal, Port, Step
from worldsize.azureml.references import classify, exists
from worldsize.base import resources
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import closest, did_you_mean
from worldsize.base.wording import shorten
from worldsize.documents import yaml
from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.documents.secrecy.names import is_secret
from worldsize.documents.yaml import Document
from worldsize.documents.yaml.nodes import find_node, insert_entry, lies_in
from worldsize.documents.yaml.scalars import resolve_scalar
from worldsize.running.model.errors import RunError
from worldsize.running.prepare.graph.trace import Scope, find_argument

_KNOWN = "only the inputs that the file gives are known here"
MAX_FED = 10_000  # inputs that one input of a pipeline may reach


class _Setting(Struct, frozen=True):
    """One ``name=value``."""

    name: str
    text: str

    @property
    def span(self) -> Span:
        """The position of the option, which is not in a file."""
        return Span(f"--set {self.name}={show_value(self.name, self.text)}", 1, 1, 1, 1)

    def quiet(self, text: str, ports: list[Port]) -> str:
        """A message that quotes the value, with a secret masked."""
        if not any(map(is_secret, (self.name, *(port.name for port in ports)))):
            return text
        return text.replace(f"`{self.text}`", f"`{HIDDEN}`").replace(repr(self.text), HIDDEN)


def show_value(name: str, text: str) -> str:
    """The value of a setting as messages show it."""
    return HIDDEN if is_secret(name) else text[:80]


def override_inputs(job: Job, settings: Mapping[str, str]) -> tuple[Job, list[Problem]]:
    """A job with other values.

    Args:
        job: The job as in its file.
        settings: Text by name: an input of the pipeline (``epochs``, ``inputs.epochs``, ``group.rate``), or
            an input of one of its steps (``train.epochs``). Paths are relative to the working folder.

    Returns:
        The job, and the problems of the settings; if there are any, the job is unchanged.
    """
    problems: list[Problem] = []
    changed = job
    for name, text in settings.items():
        setting = _Setting(shorten_name(job, name), text)
        overridden = _override_pipeline(changed, setting, problems)
        overridden = overridden or _override_step(changed, setting, problems)
        if overridden is None:
            problems.append(_report_unknown(job, setting))
        changed = overridden or changed
    return (job if problems else changed), problems


def shorten_name(job: Job, name: str) -> str:
    """The name of a setting without ``inputs.``, which an input of the pipeline may have in front."""
    return name if "inputs" in job.steps else name.removeprefix("inputs.")


def _report_unknown(job: Job, setting: _Setting) -> Problem:
    """A setting of no input that is known; what a registered component declares is not known here."""
    name, span = setting.name, setting.span
    registered = {step.name: step for step in job.steps.values() if _is_registered(step)}
    step_name, _, port = name.partition(".")
    if step_name in registered and port:
        reference = registered[step_name].reference
        shown = shorten(str(reference.value)) if reference is not None else ""
        message = f"of `{shown}` {_KNOWN}, and `{port}` is none of them"
        help_ = (
            f"write `{port}:` under `inputs:` of step `{step_name}`; `worldsize submit` without `--dry-run`"
            " reads the others from the workspace"
        )
        return Problem("run-refused", span, message, help_)
    near = did_you_mean(name, sorted({*_list_names(job)}))
    help_ = near or "see `inputs:` of the pipeline and of its steps"
    if registered and not port:
        help_ = f"write `STEP.INPUT`; of registered components {_KNOWN}"
    return Problem("run-refused", span, f"there is no input `{name}`", help_)


def _is_registered(step: Step) -> bool:
    reference = step.reference.value if step.reference is not None else None
    return step.component is None and isinstance(reference, str) and classify(reference) == "asset"


def _list_names(job: Job) -> Iterator[str]:
    yield from job.inputs
    for step in job.steps.values():
        declared = step.component.inputs if step.component is not None else {}
        for port in {**step.inputs, **declared}:
            yield port if job.type != "pipeline" else f"{step.name}.{port}"


def _override_pipeline(job: Job, setting: _Setting, problems: list[Problem]) -> Job | None:
    current = find_argument(job.inputs, setting.name)
    if current is None or isinstance(current.value, Binding):
        return None
    if isinstance(current.value, Literal) and isinstance(current.value.value, dict):
        return None  # the members of a group are set one by one
    ports = list(_list_fed_ports(Scope(job), setting.name))
    return replace(job, inputs={**job.inputs, setting.name: _make_field(setting, current, ports, problems)})


def _override_step(job: Job, setting: _Setting, problems: list[Problem]) -> Job | None:
    """Override an input of a step; the step of a standalone job need not be named."""
    step_name, _, port_name = setting.name.partition(".")
    step = job.steps.get(step_name)
    if job.type != "pipeline" and step is None:
        step, port_name = next(iter(job.steps.values())), setting.name
    if step is None or not port_name:
        return None
    declared = step.component.inputs.get(port_name) if step.component is not None else None
    current = find_argument(step.inputs, port_name)
    if declared is None and current is None:
        return None
    ports = [] if declared is None or is_inline(step) else [declared]
    if not ports and declared is not None and declared.is_data:
        ports = [declared]
    field = _make_field(setting, current, ports, problems)
    changed = replace(step, inputs={**step.inputs, port_name: field})
    return replace(job, steps={**job.steps, step.name: _retype_port(changed, port_name, field)})


def _make_field(
    setting: _Setting, current: Field[Argument] | None, ports: list[Port], problems: list[Problem]
) -> Field[Argument]:
    """The value as a field, as if it were in the file."""
    before = current.value if current is not None else None
    if isinstance(before, Data) or any(port.is_data for port in ports):
        type_ = before.type if isinstance(before, Data) else None
        problems += _report_absent(setting)
        return Field(Data(type_, Field(_resolve_path(setting.text), setting.span)), setting.span)
    value: Any = resolve_scalar(setting.text)
    if not isinstance(value, bool | int | float | str) or _wants_text(before, ports):
        value = setting.text
    checked = ports
    if not ports and isinstance(before, Literal) and before.value is not None:
        type_ = literals.primitive_type(before.value)
        checked = [Port(setting.name, "number" if type_ == "integer" else type_)]
    faults = (literals.check_value(setting.name, value, port, setting.span) for port in checked)
    if wrong := next(filter(None, faults), None):
        message = setting.quiet(wrong.message, ports)
        problems.append(Problem("run-refused", setting.span, message, wrong.help))
    return Field(Literal(value), setting.span)


def _wants_text(before: Argument | None, ports: list[Port]) -> bool:
    """Whether `007` is a text of three characters: if all inputs that it reaches are texts."""
    if ports:
        return all(port.type == "string" for port in ports)
    return isinstance(before, Literal) and isinstance(before.value, str)


def _resolve_path(text: str) -> str:
    """A path relative to the working folder, as in a shell."""
    return str(Path(os.path.abspath(text.removeprefix("file:")))) if classify(text) == "local" else text  # noqa: PTH100


def _report_absent(setting: _Setting) -> Iterator[Problem]:
    """Report a path that does not exist at the option, not at the lines of the file that use it."""
    if classify(setting.text) == "local" and not exists(Path(_resolve_path(setting.text))):
        message = f"`{shorten(setting.text)}` does not exist"
        help_ = "write a file or folder of this machine, relative to the current folder"
        yield Problem("run-refused", setting.span, message, help_)


def _retype_port(step: Step, port: str, field: Field[Argument]) -> Step:
    component = step.component
    if component is None or not is_inline(step) or not isinstance(field.value, Literal):
        return step
    type_ = literals.primitive_type(field.value.value)
    return replace(step, component=replace(component, inputs={**component.inputs, port: Port(port, type_)}))


def _list_fed_ports(outer: Scope, name: str) -> Iterator[Port]:
    """The inputs with a declared type that an input of the pipeline reaches, through nested graphs."""
    waiting, seen = [(outer, name)], 0
    while waiting and seen < MAX_FED:
        scope, wanted = waiting.pop()
        for step in scope.job.steps.values():
            if step.component is None or is_inline(step):
                continue
            for port in step.component.inputs.values():
                field = find_argument(step.inputs, port.name)
                expression = field.value.expression if field and isinstance(field.value, Binding) else None
                if expression is None or (expression.scope, expression.port) != ("parent.inputs", wanted):
                    continue
                seen += 1
                inner = scope.inside(step)
                yield port
                if inner is not None:
                    waiting.append((inner, port.name))


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
    steps = find_node(document.root, "steps")
    if not isinstance(steps, yaml.Mapping):
        return document.text  # the check of the spec reports the fault
    step_name, _, port = name.partition(".")
    step, declared = find_node(steps, step_name), find_node(document.root, _PIPELINE)
    span = _Setting(name, value).span
    if step_name == _PIPELINE and step is None and port:
        return _edit_pipeline_input(document, declared, port, value, span)
    if not isinstance(step, yaml.Mapping) or not port:
        message = f"`{name}` names no input of a step: write `STEP.INPUT`"
        help_ = _suggest_input(steps, declared, name, show_value(name, value))
        return Problem("run-refused", span, message, help_)
    arguments = find_node(step, "with")
    if not (lies_in(step, steps) and (arguments is None or lies_in(arguments, step))):
        message = f"`with:` of step `{step_name}` is shared with another step by an alias"
        return Problem("run-refused", span, message, "change it in the file")
    if "uses" not in step and not (isinstance(arguments, yaml.Mapping) and port in arguments):
        message = f"step `{step_name}` has no input `{port}`"  # its command cannot read it
        names = list(arguments) if isinstance(arguments, yaml.Mapping) else []
        help_ = did_you_mean(port, names) or "declare it under `with:`"
        if find_node(step, "scale", port) is not None:
            help_ = f"`{port}` stands under `scale:` of the step: change it in the file"
        return Problem("run-refused", span, message, help_)
    edited = _edit_with(document.text, step, arguments, port, _to_yaml(value))
    message = f"`{name}` is not a single value in the file"
    return Problem("run-refused", span, message, "change it there") if edited is None else edited


def _suggest_input(steps: yaml.Mapping, declared: yaml.Node | None, name: str, value: str) -> str:
    step_name, _, port = name.partition(".")
    if port:
        return did_you_mean(step_name, list(steps)) or "steps stand under `steps:`"
    if find_node(declared, name) is not None:
        return f"did you mean `--set {_PIPELINE}.{name}={value}`?"
    if name in steps:
        return f"write `--set {name}.INPUT=…`"
    owners: dict[str, str] = {}  # the first step that has each input
    for step in steps:
        for path in _list_inputs(find_node(steps, step)):
            owners.setdefault(path, step)
    gives = (step for step in steps if find_node(steps, step, "with", name) is not None)
    near = name if name in owners else closest(name, owners)
    if near is None:
        return f"no step has an input `{name}`"
    return f"did you mean `--set {next(gives, owners[near])}.{near}={value}`?"


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
        kind = find_node(node, "type")
        data = "path" in node or (isinstance(kind, yaml.Scalar) and kind.text not in literals.PRIMITIVES)
        key = "path" if data and "default" not in node else "default"
        if isinstance(kind, yaml.Scalar) and (kind.text == "string" or key == "path"):
            written = json.dumps(value)
        current = node.get(key)
        if current is None:
            return insert_entry(text, node, f"{key}: {written}")
        node = current
    elif isinstance(node, yaml.Scalar) and isinstance(node.value, str):
        written = json.dumps(value)
    if not isinstance(node, yaml.Scalar) or not lies_in(node, declared):
        return Problem("run-refused", span, f"`{name}` is not a single value in the file", "change it there")
    return text[: node.start] + written + text[node.end :]


def _list_inputs(step: yaml.Node | None) -> list[str]:
    """The inputs of a step that may be set: those that it gives, and those of its built-in component."""
    inputs, uses = find_node(step, "with"), find_node(step, "uses")
    names = list(inputs) if isinstance(inputs, yaml.Mapping) else []
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
    if not isinstance(old, yaml.Scalar) or not lies_in(old, arguments):
        return None
    return text[: old.start] + written + text[old.end :]


def _to_yaml(value: str) -> str:
    """A value as YAML: numbers and booleans unchanged, text in quotes."""
    return json.dumps(value) if isinstance(resolve_scalar(value), str) else value


def compile_spec(path: Path, out: Path, document: Document, settings: Mapping[str, str]) -> Compiled:
    """Compile a spec into ``out``, with other values of its inputs.

    Raises:
        SpecError: The spec has errors.
        RunError: A setting names no input, or its value does not fit.
        OutputError: The folder ``out`` cannot be written.
    """
    if settings:
        document, problems = override_spec(document, settings)
        if problems:
            raise RunError(problems)
    return api.compile(path, out, document)
