"""Expressions that are malformed, or that name a scope, step, output or input which does not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any

from worldsize.azureml import binding, literals
from worldsize.azureml.binding import Expression, find_expressions
from worldsize.azureml.fields import read_entries
from worldsize.azureml.model import Component, Field, Job, Keys, Port, Step
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, relate
from worldsize.base.suggest import closest, did_you_mean
from worldsize.base.wording import shorten
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.graph._command import CommandText, find_split_texts, find_texts
from worldsize.rules.graph._common import (
    declared_component,
    find_unbound_texts,
    find_unknown_names,
    find_wires,
    known_ports,
    list_output_paths,
    port_finder,
    searched_inputs,
    suggest_fix,
)

# `{{parent.inputs.x}}`: no language of templates has such names.
_WITHOUT_DOLLAR = re.compile(r"(?<!\$)\{\{\s{0,8}(parent\.[\w.]{1,200})\s{0,8}\}\}")
_LOST = "close it with `}}`, and leave no blanks inside the dotted name"


def check_binding_malformed(context: Tree, subject: Job | Component) -> Iterator[Finding]:
    if isinstance(subject, Component):
        yield from _check_command(context, subject)
    else:
        for node in find_unbound_texts(subject):
            yield from _check_text(node)


def _check_text(node: Scalar) -> Iterator[Finding]:
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
        span, written = node.subspan(braces.start(), braces.end()), _double_braces(braces)
        message = f"`{braces.group()}` is plain text: an expression has two braces on each side"
        fix = Fix(span, written, safe=braces.group().startswith("$"))
        yield Finding(span, message, f"write `{written}`", fix=fix)


def _check_command(context: Tree, component: Component) -> Iterator[Finding]:
    for text in find_texts(context, component):
        for start in text.template.unclosed:
            shown = text.node.text[start : start + 40].split("\n")[0]
            help_ = "close it with `]]`" if shown.startswith("$[[") else _LOST
            yield Finding(text.span(start, start + 3), f"`{shown}` is never closed", help_)
        for braces in literals.SINGLE_BRACES.finditer(text.node.text):
            if braces.group().startswith("$"):
                span, written = text.span(braces.start(), braces.end()), _double_braces(braces)
                message = f"`{braces.group()}` is a variable of the shell: an expression has two braces"
                yield Finding(span, message, f"write `{written}`", fix=Fix(span, written))


def _double_braces(braces: re.Match[str]) -> str:
    return f"${{{{{braces.group().lstrip('$').strip('{} ')}}}}}"


_WHOLE = frozenset({"parent.jobs", "parent.outputs"})


def check_binding_in_text(context: Tree, job: Job) -> Iterator[Finding]:
    whole = _WHOLE if job.keys.binds("parent.inputs") else {*_WHOLE, "parent.inputs"}
    for node in find_unbound_texts(job):
        expressions = (inner for inner in find_expressions(node.text) if inner.scope in whole)
        for expression in islice(expressions, 1):
            message = f"`{expression}` has text around it, but a binding must be the whole value"
            help_ = "bind it alone and join the path inside the script"
            yield Finding(node.subspan(expression.start, expression.end), message, help_)


_FREE = frozenset({"name", "output_name", "default_datastore"})  # filled in by the service
_FILLED_IN = "`${{name}}`, `${{output_name}}` and `${{default_datastore}}`"
_LIKE_EXPRESSION = re.compile(r"(?<!\$)\{\{\s{0,8}\$?(name|output_name|default_datastore)\s{0,8}\}\}")


def check_binding_unknown_scope(context: Tree, subject: Job | Component) -> Iterator[Finding]:
    if isinstance(subject, Component):
        yield from _check_scopes_of_command(context, subject)
    else:
        yield from _check_scopes(context, subject)
        yield from _check_places(subject)


def _check_places(job: Job) -> Iterator[Finding]:
    """Report expressions in the paths of outputs that the service does not fill in."""
    for _, node in list_output_paths(job):
        for expression in find_expressions(node.text):
            if expression.name in _FREE or expression.scope in _WHOLE:  # that one is binding-in-text
                continue
            last = expression.parts[-1]
            help_ = f"write `${{{{{last}}}}}`" if last in _FREE else f"write one of {_FILLED_IN}"
            message = f"`{expression}` becomes part of the path: the service does not fill it in"
            yield Finding(node.subspan(expression.start, expression.end), message, help_)
        for match in _LIKE_EXPRESSION.finditer(node.text):
            span, written = node.subspan(match.start(), match.end()), f"${{{{{match[1]}}}}}"
            message = f"`{match[0]}` becomes part of the path: an expression starts with `$`"
            yield Finding(span, message, f"write `{written}`", fix=Fix(span, written, safe=False))


def check_output_path_shared(context: Tree, job: Job) -> Iterator[Finding]:
    first: dict[tuple[str, str], Scalar] = {}
    for step, node in list_output_paths(job):
        names = {expression.name for expression in find_expressions(node.text)}
        if "output_name" in names or not isinstance(node.value, str):
            continue
        key = (step if "name" in names else "", node.text.rstrip("/"))
        earlier = first.setdefault(key, node)
        if earlier is not node:
            message = f"two outputs are written to `{shorten(node.text, 80)}`"
            help_ = "end the path with `${{name}}/${{output_name}}`, which differ by step and output"
            yield Finding(node.span, message, help_, relate(earlier.span, "written here as well"))


def _check_scopes(context: Tree, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        expression = wire.expression
        if (_names_a_source(expression) and job.keys.binds(expression.scope)) or expression.name in _FREE:
            continue
        span = wire.node.subspan(expression.start, expression.end)
        yield Finding(span, f"`{expression}` cannot be bound to an input of a step", _advice(expression, job))
    yield from _in_own_inputs(job)
    for step in job.steps.values() if job.type == "pipeline" else ():
        for field in step.outputs.values():
            bound = field.value.binding
            if bound is not None and bound.value.scope != "parent.outputs" and bound.span is not None:
                message = f"`{bound.value}` cannot be bound to an output of a step"
                port = bound.value.port if bound.value.scope == "outputs" else None
                named = f"`${{{{parent.outputs.{port or 'NAME'}}}}}`"
                help_ = f"an output is bound to one of the pipeline: write {named}"
                yield Finding(bound.span, message, help_)
        for variable in read_entries(step.environment_variables).values():
            yield from _in_variable(variable, job.keys)


def _in_own_inputs(job: Job) -> Iterator[Finding]:
    """The plan in an input of the pipeline itself, which nothing fills in."""
    for field in job.inputs.values() if job.type == "pipeline" else ():
        node = field.node
        if not isinstance(node, Scalar):
            continue
        for expression in find_expressions(node.text):
            if expression.scope == "plan":
                message = f"`{expression}` cannot be the value of an input of the pipeline"
                help_ = "only inputs of a step follow the plan: write it there"
                yield Finding(node.subspan(expression.start, expression.end), message, help_)


def _in_variable(variable: Field[Any], keys: Keys) -> Iterator[Finding]:
    node = variable.node
    if keys.in_variable is None or not isinstance(node, Scalar) or "${{" not in node.text:
        return
    for expression in find_expressions(node.text):
        if "." in expression.name and expression.scope not in keys.in_variable:
            message = f"`{expression}` is not allowed in an environment variable"
            help_ = f"write `${{{{{keys.bindings[1]}}}}}`, or pass it as an input of the command"
            yield Finding(node.subspan(expression.start, expression.end), message, help_)


def _names_a_source(expression: Expression) -> bool:
    if expression.scope == "parent.inputs":
        return expression.port is not None
    return expression.scope == "parent.jobs" and expression.side is not None and expression.port is not None


def _advice(expression: Expression, job: Job) -> str:
    first, *rest = expression.parts
    if first == "plan":
        return (
            "only a spec has planned numbers: write the number, or in Python call `worldsize.plan(job)` first"
        )
    near = closest(rest[0], ("inputs", "jobs")) if first == "parent" and len(rest) > 1 else None
    if near is not None:
        return f"did you mean `${{{{parent.{'.'.join((near, *rest[1:]))}}}}}`?"
    if first == "inputs" and rest and job.keys.binds("parent.inputs"):
        return f"write `${{{{parent.inputs.{'.'.join(rest)}}}}}` for an input of the pipeline"
    if first == "parents":
        return f"write `${{{{parent.{'.'.join(rest)}}}}}`"
    if (first == "jobs" and len(rest) > 2) or (first in job.steps and rest):
        scope = "parent" if first == "jobs" else "parent.jobs"
        return f"write `${{{{{scope}.{expression.name}}}}}`"
    return "write " + " or ".join(f"`${{{{{text}}}}}`" for text in job.keys.bindings)


def _check_scopes_of_command(context: Tree, component: Component) -> Iterator[Finding]:
    for text in find_texts(context, component):
        for expression in text.template.expressions:
            is_allowed = expression.scope in component.keys.in_command and expression.port
            if "." in expression.name and not is_allowed:
                span = text.span(expression.start, expression.end)
                message = f"`{expression}` is not allowed in `{text.key}`"
                yield Finding(span, message, _in_command(expression, component.keys))


def _in_command(expression: Expression, keys: Keys) -> str:
    if expression.scope == "parent.inputs" and expression.port:
        port = expression.port
        bound = f"`{port}: {expression}`"
        return f"bind it to an input: {bound} under `{keys.inputs}:`, and write `${{{{inputs.{port}}}}}` here"
    first, *rest = expression.parts
    if len(rest) == 1 and (scope := closest(first, keys.in_command)):
        return f"did you mean `${{{{{scope}.{rest[0]}}}}}`?"
    return f"bind it to an input under `{keys.inputs}:` and write `${{{{inputs.NAME}}}}` here"


def check_binding_unknown_step(context: Tree, job: Job) -> Iterator[Finding]:
    for wire in find_wires(context, job):
        step = wire.expression.step
        if step is not None and step not in job.steps:
            others = [name for name in job.steps if name != wire.step.name]  # a step cannot mean itself
            help_ = did_you_mean(step, others) or "write the name of another step under `jobs:`"
            fix = suggest_fix(wire.part(2), step, others)
            yield Finding(wire.part(2), f"there is no step `{step}`", help_, fix=fix)


def check_binding_unknown_output(context: Tree, subject: Job | Component | Step) -> Iterator[Finding]:
    if isinstance(subject, Job):
        yield from _check_wires(context, subject)
        for step in subject.steps.values():
            yield from _check_outputs(step)
    elif isinstance(subject, Component):
        texts = [*find_texts(context, subject)]
        if subject.type == "parallel" and subject.path is not None:
            texts += find_split_texts(subject.raw)
        for text in texts:
            yield from _check_ports(text, subject)
    elif subject.type == "parallel" and subject.component is not None:
        for text in find_split_texts(subject.raw):  # goes before that of its component
            yield from _check_ports(text, subject.component)
    elif subject.type == "sweep" and subject.component is not None:
        yield from _check_trial(find_texts(context, subject.component), searched_inputs(subject))


def _check_wires(context: Tree, job: Job) -> Iterator[Finding]:
    finders: dict[tuple[str, str], tuple[dict[str, Port] | None, Callable[[str], bool]]] = {}
    for wire in find_wires(context, job):
        expression = wire.expression
        source = job.steps.get(expression.step or "")
        if source is None or expression.side is None or expression.port is None:
            continue
        key = (source.name, expression.side)
        if key not in finders:
            ports = known_ports(source, expression.side)
            finders[key] = ports, port_finder(ports or {})
        names, has = finders[key]
        if names is not None and not has(expression.port):
            message = f"step `{source.name}` has no {expression.side[:-1]} `{expression.port}`"
            span, help_ = wire.part(4), did_you_mean(expression.port, names)
            yield Finding(span, message, help_, fix=suggest_fix(span, expression.port, names))


def _check_outputs(step: Step) -> Iterator[Finding]:
    """Report outputs of a step that its component does not declare."""
    component = declared_component(step)
    if component is None:
        return
    for name, span, fix in find_unknown_names(step.outputs, component.outputs):
        message = f"step `{step.name}` has no output `{name}`"
        help_ = did_you_mean(name, component.outputs) or "its component declares no outputs"
        yield Finding(span, message, help_, fix=fix)


def _check_ports(text: CommandText, component: Component) -> Iterator[Finding]:
    has = {"inputs": port_finder(component.inputs), "outputs": port_finder(component.outputs)}
    for expression in text.template.expressions:
        if expression.scope not in ("inputs", "outputs") or expression.port is None:
            continue
        ports = component.inputs if expression.scope == "inputs" else component.outputs
        if not has[expression.scope](expression.port):
            side = expression.scope[:-1]
            message = f"`{text.key}` uses the {side} `{expression.port}`, which is not declared"
            advice = f"declare `{expression.port}` under `{expression.scope}:`"
            help_, span = did_you_mean(expression.port, ports) or advice, text.port_span(expression)
            yield Finding(span, message, help_, fix=suggest_fix(span, expression.port, ports))


def _check_trial(texts: list[CommandText], space: Collection[str]) -> Iterator[Finding]:
    """``${{search_space.x}}`` in the trial of a sweep."""
    for text in texts:
        for expression in text.template.expressions:
            name = expression.port
            if expression.scope == "search_space" and name is not None and name not in space:
                message = f"`search_space` has no `{name}`, which the trial uses"
                help_ = did_you_mean(name, space) or f"add `{name}` to `search_space:`"
                yield Finding(text.port_span(expression), message, help_)
