"""Hover: what a word means, and the arithmetic behind a planned value."""

from __future__ import annotations

from lsprotocol import types

from worldsize.azureml.binding import Expression
from worldsize.facts import vm_sizes
from worldsize.lsp import notes
from worldsize.lsp.analysis import Analysis
from worldsize.lsp.buffers import Buffer
from worldsize.lsp.names import Names
from worldsize.lsp.outline import Entry, Path
from worldsize.lsp.places import find_code, find_expression
from worldsize.lsp.schemas import open_schema
from worldsize.lsp.session import Session
from worldsize.planning.model import Derivation
from worldsize.rules import registry

_CRON = frozenset({("schedule", "cron"), ("trigger", "expression")})  # in a spec, and in a schedule


def hover(session: Session, buffer: Buffer, params: types.HoverParams) -> types.Hover | None:
    """What is known of the word at a position; None for a word of which nothing is."""
    if not buffer.is_yaml:
        return None
    text = buffer.source.text
    offset = session.buffers.positions.to_offset(buffer.source, params.position)
    code = find_code(text, offset)
    if code is not None:
        rule = registry.find(code.text)
        return (
            None if rule is None else _show(session, buffer, notes.describe_rule(rule), code.start, code.end)
        )
    names = Names(buffer.path, text, session.buffers)
    described = _describe_place(session, buffer, names, offset) if names.kind else None
    return _show(session, buffer, *described) if described is not None else None


def _describe_place(
    session: Session, buffer: Buffer, names: Names, offset: int
) -> tuple[str, int, int] | None:
    """What is known of the place, and its range."""
    analysis = session.recall_resolved(buffer)
    found = names.outline.at(offset)
    expression = find_expression(names.text, offset)
    if expression is not None:
        start, end = expression[0].start, expression[0].end
        content = _describe_expression(names, analysis, expression[0], found[0].path if found else ())
    elif found is None:
        return None
    elif found[1] == "value":
        start, end = found[0].value_start, found[0].value_end
        content = _describe_value(names, analysis, found[0])
    else:
        start, end = found[0].key_start, found[0].key_end
        content = _describe_key(names, analysis, found[0].path)
    return (content, start, end) if content else None


def _show(session: Session, buffer: Buffer, text: str, start: int, end: int) -> types.Hover:
    content = types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.Hover(content, session.buffers.positions.to_range(buffer.source, start, end))


def _describe_value(names: Names, analysis: Analysis, entry: Entry) -> str | None:
    value = names.outline.value(*entry.path) or ""
    key = entry.path[-1]
    size = _describe_size(analysis, value)
    if size is not None:
        return size
    step = names.find_step(entry.path)
    if step is not None and key in ("uses", "component", "trial"):
        component = names.read_component(step)
        return notes.describe_component(component, value) if component is not None else None
    if key in ("compute", "target", "default_compute"):
        return _describe_compute(names, analysis, value)
    if entry.path in _CRON and (times := notes.describe_fire_times(value)) is not None:
        return times
    return _describe_key(names, analysis, entry.path) if "\n" not in value else None


def _describe_size(analysis: Analysis, name: str | None) -> str | None:
    if not name or analysis.run is None:
        return None
    context = analysis.run.context
    size = vm_sizes.lookup(name, context.vm_sizes)
    return notes.describe_size(size, context.prices()) if size is not None else None


def _describe_compute(names: Names, analysis: Analysis, value: str) -> str | None:
    """The VM size behind a profile of a spec or a cluster of the project."""
    if names.is_spec:
        return _describe_size(analysis, names.outline.value("compute", value, "instance_type"))
    cluster = analysis.run.context.cluster(value) if analysis.run is not None else None
    return _describe_size(analysis, cluster.instance_type) if cluster is not None else None


def _describe_key(names: Names, analysis: Analysis, path: Path) -> str | None:
    step = names.find_step(path)
    parts = []
    if step is not None and len(path) == 2:
        plan = analysis.plan.steps.get(step) if analysis.plan is not None else None
        parts += [notes.describe_step(plan)] if plan is not None else []
        component = names.read_component(step) if plan is None else None
        parts += [notes.describe_component(component, step)] if component is not None else []
    elif step is not None and len(path) == 4 and path[2] in (names.inputs_key, "outputs"):
        side = "outputs" if path[2] == "outputs" else "inputs"
        port = names.list_ports(step, side).get(str(path[3]))
        parts += [notes.describe_port(port)] if port is not None else []
    if not parts:
        schema = open_schema(names.kind, names.outline)
        text = schema.describe(path) if schema is not None else None
        parts += [f"**{path[-1]}**\n\n{text}"] if text else []
    rows = _find_derivations(analysis, step, str(path[-1])) if step is not None and len(path) > 2 else []
    parts += [notes.describe_derivations(rows)] if rows else []
    return "\n\n---\n\n".join(parts) or None


def _find_derivations(analysis: Analysis, step: str, quantity: str) -> list[Derivation]:
    """The rows of a step's plan for a quantity."""
    plan = analysis.plan.steps.get(step) if analysis.plan is not None else None
    return [row for row in plan.derivations if row.quantity == quantity] if plan is not None else []


def _describe_expression(names: Names, analysis: Analysis, expression: Expression, path: Path) -> str | None:
    step = names.find_step(path)
    if expression.scope == "plan" and step is not None:
        quantity = expression.parts[-1]
        rows = _find_derivations(analysis, step, quantity)
        plan = analysis.plan.steps.get(step) if analysis.plan is not None else None
        if rows:
            return notes.describe_derivations(rows)
        if plan is not None and quantity in plan.inputs:
            return f"plan: `{quantity}` **{plan.inputs[quantity]}**"
        return None
    if expression.scope == "parent.jobs" and expression.step is not None and expression.side is not None:
        port = names.list_ports(expression.step, expression.side).get(expression.port or "")
        return (
            f"{expression.side[:-1]} of `{expression.step}`\n\n{notes.describe_port(port)}" if port else None
        )
    if expression.scope in ("parent.inputs", "inputs") and expression.port is not None:
        base: Path = (
            (names.steps_key, step, names.inputs_key)
            if expression.scope == "inputs" and step
            else ("inputs",)
        )
        value = names.outline.value(*base, expression.port)
        return f"input `{expression.port}`: {value}" if value else None
    return None
