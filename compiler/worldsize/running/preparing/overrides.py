"""``--set name=value``: other values for the inputs of a pipeline, given when it is run.

What is set is what the file would say: the text is read by YAML's rules, and held against the type, range and
words of every input that it reaches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import literals, port_values
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Data, Field, Job, Literal, Port, Step
from worldsize.azureml.references import classify, exists, shorten
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.running.graph.scope import Scope, given
from worldsize.secrecy.masking import HIDDEN
from worldsize.secrecy.names import is_secret
from worldsize.yaml.scalars import resolve

MOST_FED = 10_000  # inputs that one input of a pipeline is followed to


class _Given(Struct, frozen=True):
    """One ``name=value``."""

    name: str
    text: str

    @property
    def span(self) -> Span:
        """The option itself, which stands in no file."""
        shown = HIDDEN if is_secret(self.name) else self.text[:80]
        return Span(f"--set {self.name}={shown}", 1, 1, 1, 1)

    def quiet(self, text: str, ports: list[Port]) -> str:
        """A sentence that quotes the value, without it where it is a secret."""
        secret = is_secret(self.name) or any(is_secret(port.name) for port in ports)
        return (
            text.replace(f"`{self.text}`", f"`{HIDDEN}`").replace(repr(self.text), HIDDEN) if secret else text
        )


def apply(job: Job, settings: Mapping[str, str]) -> tuple[Job, list[Problem]]:
    """A job with other values.

    Args:
        job: As its file has it.
        settings: Text by name: an input of the pipeline (``epochs``, ``group.rate``), or an input of one of
            its steps (``train.epochs``). Paths are relative to the working folder.

    Returns:
        The job, and what is wrong with the settings; then the job is as it was.
    """
    problems: list[Problem] = []
    changed = job
    for name, text in settings.items():
        setting = _Given(name, text)
        found = _of_pipeline(changed, setting, problems) or _of_step(changed, setting, problems)
        if found is None:
            known = sorted({*_names(job)})
            help_ = did_you_mean(name, known) or "see `inputs:` of the pipeline and of its steps"
            problems.append(Problem("run-refused", setting.span, f"there is no input `{name}`", help_))
        else:
            changed = found
    return (job if problems else changed), problems


def _names(job: Job) -> Iterator[str]:
    yield from job.inputs
    for step in job.steps.values():
        declared = step.component.inputs if step.component is not None else {}
        for port in {**step.inputs, **declared}:
            yield port if job.type != "pipeline" else f"{step.name}.{port}"


def _of_pipeline(job: Job, setting: _Given, problems: list[Problem]) -> Job | None:
    current = given(job.inputs, setting.name)
    if current is None or isinstance(current.value, Binding):
        return None
    if isinstance(current.value, Literal) and isinstance(current.value.value, dict):
        return None  # a whole group: its members are set one by one
    ports = list(_fed(Scope(job), setting.name))
    return replace(job, inputs={**job.inputs, setting.name: _field(setting, current, ports, problems)})


def _of_step(job: Job, setting: _Given, problems: list[Problem]) -> Job | None:
    """An input of a step; the step of a standalone job need not be named."""
    step_name, _, port_name = setting.name.partition(".")
    step = job.steps.get(step_name)
    if job.type != "pipeline" and step is None:
        step, port_name = next(iter(job.steps.values())), setting.name
    if step is None or not port_name:
        return None
    declared = step.component.inputs.get(port_name) if step.component is not None else None
    current = given(step.inputs, port_name)
    if declared is None and current is None:
        return None
    ports = [] if declared is None or _follows_its_value(step) else [declared]
    if not ports and declared is not None and declared.is_data:
        ports = [declared]
    field = _field(setting, current, ports, problems)
    changed = replace(step, inputs={**step.inputs, port_name: field})
    return replace(job, steps={**job.steps, step.name: _retyped(changed, port_name, field)})


def _field(
    setting: _Given, current: Field[Argument] | None, ports: list[Port], problems: list[Problem]
) -> Field[Argument]:
    """The value as the file would have it."""
    before = current.value if current is not None else None
    if isinstance(before, Data) or any(port.is_data for port in ports):
        type_ = before.type if isinstance(before, Data) else None
        problems += _absent(setting)
        return Field(Data(type_, Field(_path(setting.text), setting.span)), setting.span)
    value: Any = resolve(setting.text)
    if not isinstance(value, bool | int | float | str) or _wants_text(before, ports):
        value = setting.text
    wrong = next(
        filter(None, (port_values.check_value(setting.name, value, port, setting.span) for port in ports)),
        None,
    )
    if wrong is None and not ports and isinstance(before, Literal) and before.value is not None:
        as_before = Port(setting.name, literals.type_of(before.value))
        loose = replace(as_before, type="number") if as_before.type == "integer" else as_before
        wrong = port_values.check_value(setting.name, value, loose, setting.span)
    if wrong is not None:
        message = setting.quiet(wrong.message, ports)
        problems.append(Problem("run-refused", setting.span, message, wrong.help))
    return Field(Literal(value), setting.span)


def _wants_text(before: Argument | None, ports: list[Port]) -> bool:
    """Whether `007` is a text of three letters: where all it reaches is text."""
    if ports:
        return all(port.type == "string" for port in ports)
    return isinstance(before, Literal) and isinstance(before.value, str)


def _path(text: str) -> str:
    """A path as typed in a shell: relative to where that is."""
    return str(Path(os.path.abspath(text.removeprefix("file:")))) if classify(text) == "local" else text  # noqa: PTH100


def _absent(setting: _Given) -> Iterator[Problem]:
    """That a path leads nowhere, said of the option: the lines of the file that use it are not to blame."""
    if classify(setting.text) == "local" and not exists(Path(_path(setting.text))):
        message = f"`{shorten(setting.text)}` does not exist"
        help_ = "write a file or folder of this machine, relative to where you call this"
        yield Problem("run-refused", setting.span, message, help_)


def _follows_its_value(step: Step) -> bool:
    from worldsize.azureml import graph  # noqa: PLC0415

    return graph.is_inline(step)


def _retyped(step: Step, port: str, field: Field[Argument]) -> Step:
    """An inline step's own port, whose type is that of the value."""
    component = step.component
    if component is None or not _follows_its_value(step) or not isinstance(field.value, Literal):
        return step
    type_ = literals.type_of(field.value.value)
    return replace(step, component=replace(component, inputs={**component.inputs, port: Port(port, type_)}))


def _fed(outer: Scope, name: str) -> Iterator[Port]:
    """The inputs with a declared type that an input of the pipeline reaches, through any graphs."""
    waiting, seen = [(outer, name)], 0
    while waiting and seen < MOST_FED:
        scope, wanted = waiting.pop()
        for step in scope.job.steps.values():
            if step.component is None or _follows_its_value(step):
                continue
            for port in step.component.inputs.values():
                field = given(step.inputs, port.name)
                expression = field.value.expression if field and isinstance(field.value, Binding) else None
                if not _reads(expression, wanted):
                    continue
                seen += 1
                inner = scope.inside(step)
                yield port
                if inner is not None:
                    waiting.append((inner, port.name))


def _reads(expression: Expression | None, wanted: str) -> bool:
    return expression is not None and expression.scope == "parent.inputs" and expression.port == wanted
