"""The commands of components: their texts with expressions, optional inputs in these, and backslashes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from worldsize.azureml import binding
from worldsize.azureml.binding import Expression, Template
from worldsize.azureml.command_line import Word, parse_commands
from worldsize.azureml.model import Component, Job, Port
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, Problem
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, find_node
from worldsize.rules.graph._common import find_wires


class CommandText(NamedTuple):
    """One such text, taken apart."""

    key: str
    node: Scalar
    template: Template

    def span(self, start: int, end: int) -> Span:
        """The place of a part."""
        return self.node.subspan(start, end)

    def port_span(self, expression: Expression) -> Span:
        """The place of what an expression names behind its scope."""
        end = expression.name_start + len(expression.name)
        return self.span(expression.name_start + len(expression.scope) + 1, end)


def find_texts(context: Tree, component: Component) -> list[CommandText]:
    """The texts of a component that hold expressions, as their file has them."""
    return context.all_of(_texts, component)


def _texts(_context: Tree, component: Component) -> Iterator[CommandText]:
    command = component.command.node if component.command is not None else None
    nodes = [("command", command)]
    if component.type.lower() == "spark":
        nodes.append(("args", find_node(component.raw, "args")))
    nodes += [(key, find_node(component.raw, "task", key)) for key in ("program_arguments", "append_row_to")]
    for key, node in nodes:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            yield CommandText(key, node, binding.parse_template(node.value))


def find_split_texts(raw: Node | None) -> Iterator[CommandText]:
    """``input_data`` of a parallel step or component: which input is split into batches."""
    node = find_node(raw, "input_data")
    if isinstance(node, Scalar) and isinstance(node.value, str):
        yield CommandText("input_data", node, binding.parse_template(node.value))


def _make_section(text: str, expression: Expression) -> tuple[int, int, str]:
    """Where an optional section goes, and its text: a value with its option, without other brackets."""
    start, end = expression.start, expression.end
    word = next(iter(text[:start].rsplit(maxsplit=1)[-1:]), "")
    bare = word.lstrip("$[")
    if set(word) & {'"', "'", "}"} or not (text[:start].endswith(word) or bare.startswith("-")):
        return start, end, f"$[[{expression}]]"
    if bare != word:
        end += len(text[end:]) - len(text[end:].lstrip("]"))
    start = text.rindex(word, 0, start)
    return start, end, f"$[[{text[start + len(word) - len(bare) : expression.start]}{expression}]]"


def check_component(context: Tree, component: Component) -> Iterator[Problem]:
    for text in find_texts(context, component):
        inside = {expression.start for part in text.template.sections for expression in part.expressions}
        for expression in text.template.expressions:
            port = component.inputs.get(expression.port or "") if expression.scope == "inputs" else None
            if port is None:
                continue
            if expression.start in inside:
                if not port.optional and component.path is not None:
                    message = f"`{port.name}` is required, but only optional inputs may be inside `$[[ ]]`"
                    help_ = "take it out of the brackets, or declare it with `optional: true`"
                    span = text.span(expression.start, expression.end)
                    yield Problem("required-input-in-section", span, message, help_)
            elif port.optional and port.default is None and not text.template.unclosed:
                # a section that is not closed may have been meant to hold it
                message = f"`{port.name}` is optional and has no default, but is used outside `$[[ ]]`"
                start, end, section = _make_section(text.node.text, expression)
                help_ = f"write `{section}`, which is omitted if there is no value"
                fix = Fix(span := text.span(start, end), section, safe=False)
                yield Problem("optional-input-unguarded", span, message, help_, fix=fix)


def check_sections_glued(context: Tree, component: Component) -> Iterator[Finding]:
    for text in find_texts(context, component):
        for before, after in pairwise(text.template.sections):
            if before.end == after.start:
                message = "no blank separates this optional section from the one before it"
                span = text.span(after.start, after.start + len("$[["))
                fix = Fix(text.span(after.start, after.start), " ", safe=False)
                yield Finding(span, message, "write a blank before `$[[`", fix=fix)


def check_folder_copied_whole(context: Tree, job: Job) -> Iterator[Finding]:
    read = {(wire.expression.step, wire.expression.port) for wire in find_wires(context, job)}
    reported: set[Span] = set()
    for step in job.steps.values():
        for source, target in _find_copies(step.component):
            port = _find_port(step.component, target, "outputs")
            command = step.component.command if step.component is not None else None
            if port is None or (step.name, port.name) not in read or command is None:
                continue
            assert isinstance(command.node, Scalar)
            span, written = command.node.subspan(source.start, source.end), f"{source.bare.rstrip('/')}/."
            if span not in reported:
                reported.add(span)
                message = f"`cp` puts the folder `{source.bare}` itself into the output, not its files"
                yield Finding(span, message, f"write `{written}`", fix=Fix(span, written, safe=False))


def _find_copies(component: Component | None) -> Iterator[tuple[Word, Word]]:
    """The folders among the inputs that a command copies as a whole, and to where."""
    command = component.command if component is not None else None
    if command is None or not isinstance(command.node, Scalar) or command.node.text != command.value:
        return
    for parsed in parse_commands(command.node.text):
        words = parsed.arguments
        if len(words) < _COPY_WORDS or words[0].bare != "cp":
            continue
        options, (*sources, target) = _split_options(words[1:])
        letters = {letter for option in options if option[:2] != "--" for letter in option[1:]}
        is_recursive = bool({"r", "R", "a"} & letters) or not {"--recursive", "--archive"}.isdisjoint(options)
        is_into = "T" not in letters and "--no-target-directory" not in options
        port = _find_port(component, sources[0], "inputs") if len(sources) == 1 else None
        if is_recursive and is_into and port is not None and port.type == "uri_folder":
            yield sources[0], target


_COPY_WORDS = 3  # the program, from where and to where


def _split_options(words: tuple[Word, ...]) -> tuple[list[str], list[Word]]:
    """The options of a command, and its other words."""
    options = [word.text for word in words if word.text.startswith("-")]
    return options, [word for word in words if not word.text.startswith("-")] or [words[0]]


def _find_port(component: Component | None, word: Word, scope: str) -> Port | None:
    """The port that a word of the command is, without anything behind it."""
    expression = binding.parse_expression(word.bare.rstrip("/"))
    if component is None:
        return None
    ports = component.inputs if scope == "inputs" else component.outputs
    return ports.get(expression.port or "") if expression is not None and expression.scope == scope else None


_BROKEN = re.compile(r"\\[ \t]*\r?\n")


def check_command_backslash(context: Tree, subject: Component | Job) -> Iterator[Finding]:
    """Check the commands of component files and of pipelines; bash runs that of a standalone job as it is."""
    for component in _list_folded(subject):
        for text in find_texts(context, component):
            backslash = _BROKEN.search(text.node.text)
            if backslash is not None and text.key == "command":
                message = "a backslash at the end of a line does not continue the command of a component"
                how = "which folds the lines into one" if text.node.style != ">" else "indent its lines alike"
                help_ = f"write `command: >-`, {how}, and remove the backslashes"
                yield Finding(text.span(backslash.start(), backslash.start() + 1), message, help_)
                break


def _list_folded(subject: Component | Job) -> list[Component]:
    """The components whose commands become one line."""
    if isinstance(subject, Component):
        return [subject] if subject.path is not None else []
    if isinstance(subject.raw, Mapping) and "jobs" not in subject.raw and "steps" not in subject.raw:
        return []
    components = [step.component for step in subject.steps.values() if step.component is not None]
    return [component for component in components if component.path is None]
