"""Hover: what a word means, and the arithmetic behind a planned value; completion shows the same notes."""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types

from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Component, Port
from worldsize.base.wording import plural, show_number
from worldsize.facts import vm_sizes
from worldsize.facts.prices import TIERS, PriceList
from worldsize.facts.vm_sizes import VmSize
from worldsize.lsp.analysis import Analysis
from worldsize.lsp.buffers import Buffer, Session
from worldsize.lsp.names import Names
from worldsize.lsp.outline import Entry, Path
from worldsize.lsp.positions import find_code, find_expression
from worldsize.lsp.schemas import open_schema, write_literal
from worldsize.planning.model import Derivation, StepPlan
from worldsize.planning.plan_text import list_rows
from worldsize.rules import pages, registry

_CRON = frozenset({("schedule", "cron"), ("trigger", "expression")})  # in a spec, and in a schedule


def hover(session: Session, buffer: Buffer, params: types.HoverParams) -> types.Hover | None:
    """Describe the word at a position; None if nothing is known about it."""
    if not buffer.is_yaml:
        return None
    names = Names(session, buffer, buffer.source)
    offset = session.buffers.positions.to_offset(buffer.source, params.position)
    code = find_code(names.text, offset)
    if code is not None:
        rule = registry.find(code.group())
        return (
            None
            if rule is None
            else _show(
                names, f"{rule.code} `{rule.slug}` ({rule.severity})\n\n{pages.read(rule)}", *code.span()
            )
        )
    described = _describe_place(names, offset) if names.kind else None
    return _show(names, *described) if described is not None else None


def _describe_place(names: Names, offset: int) -> tuple[str, int, int] | None:
    """The description of a place, and its range."""
    analysis = names.session.recall_resolved(names.buffer)
    entry = names.outline.at(offset)
    expression = find_expression(names.text, offset)
    if expression is not None:
        start, end = expression[0].start, expression[0].end
        content = _describe_expression(names, analysis, expression[0], entry[0].path if entry else ())
    elif entry is None:
        return None
    elif entry[1] == "value":
        start, end = entry[0].value_start, entry[0].value_end
        content = _describe_value(names, analysis, entry[0])
    else:
        start, end = entry[0].key_start, entry[0].key_end
        content = _describe_key(names, analysis, entry[0].path)
    return (content, start, end) if content else None


def _show(names: Names, text: str, start: int, end: int) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), names.to_range(start, end))


def _describe_value(names: Names, analysis: Analysis, entry: Entry) -> str | None:
    value = names.outline.value(*entry.path) or ""
    key = entry.path[-1]
    size = _describe_size(analysis, value)
    if size is not None:
        return size
    step = names.find_step(entry.path)
    if step is not None and key in ("uses", "component", "trial"):
        component = names.read_component(step)
        return describe_component(component, value) if component is not None else None
    if key in ("compute", "target", "default_compute"):
        return _describe_compute(names, analysis, value)
    if entry.path in _CRON and (times := pages.find_fire_times(value)[1]):
        lines = "".join(f"- {time}\n" for time in times)
        return f"fires next, on the clock of the schedule's `time_zone`:\n\n{lines}"
    return _describe_key(names, analysis, entry.path) if "\n" not in value else None


def _describe_size(analysis: Analysis, name: str | None) -> str | None:
    if not name or analysis.run is None:
        return None
    context = analysis.run.context
    size = vm_sizes.lookup(name, context.vm_sizes)
    return describe_size(size, context.prices()) if size is not None else None


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
        plan = analysis.find_plan(step)
        parts += [describe_step(plan)] if plan is not None else []
        component = names.read_component(step) if plan is None else None
        parts += [describe_component(component, step)] if component is not None else []
    elif (port := names.find_port(path)) is not None:
        parts.append(describe_port(port))
    if not parts:
        schema = open_schema(names.kind, names.outline)
        text = schema.describe(path) if schema is not None else None
        parts += [f"**{path[-1]}**\n\n{text}"] if text else []
    rows = _find_derivations(analysis, step, str(path[-1])) if len(path) > 2 else []
    parts += [describe_derivations(rows)] if rows else []
    return "\n\n---\n\n".join(parts) or None


def _find_derivations(analysis: Analysis, step: str | None, quantity: str) -> list[Derivation]:
    """The rows of a step's plan for a quantity."""
    plan = analysis.find_plan(step)
    return [row for row in plan.derivations if row.quantity == quantity] if plan is not None else []


def _describe_expression(names: Names, analysis: Analysis, expression: Expression, path: Path) -> str | None:
    step = names.find_step(path)
    if expression.scope == "plan" and step is not None:
        quantity = expression.parts[-1]
        rows = _find_derivations(analysis, step, quantity)
        plan = analysis.find_plan(step)
        if rows:
            return describe_derivations(rows)
        if plan is not None and quantity in plan.inputs:
            return f"plan: `{quantity}` **{plan.inputs[quantity]}**"
        return None
    if expression.scope == "parent.jobs" and expression.step is not None and expression.side is not None:
        port = names.list_ports(expression.step, expression.side).get(expression.port or "")
        return f"{expression.side[:-1]} of `{expression.step}`\n\n{describe_port(port)}" if port else None
    if expression.scope in ("parent.inputs", "inputs") and expression.port is not None:
        base: Path = (
            (names.steps_key, step, names.inputs_key)
            if expression.scope == "inputs" and step
            else ("inputs",)
        )
        value = names.outline.value(*base, expression.port)
        return f"input `{expression.port}`: {value}" if value else None
    return None


def describe_size(size: VmSize, prices: PriceList) -> str:
    """GPUs, memory, links, prices with their region and date, and retirement of a VM size."""
    lines = [f"**{size.name}**", describe_hardware(size)]
    links = [
        f"{link.shown()} {where}"
        for link, where in (
            (vm_sizes.intra_node_link(size), "between the GPUs of an instance"),
            (vm_sizes.inter_node_link(size), "between instances, for each GPU"),
        )
        if link is not None and size.gpus
    ]
    lines += ["; ".join(links)] if links else []
    for tier in TIERS:
        price = prices.find(size.name, tier)
        if price is not None:
            lines.append(f"{tier.replace('_', ' ')}: {price.shown()}")
    if size.status != "current":
        when = f" on {size.retirement_date}" if size.retirement_date is not None else ""
        lines.append(f"**{size.status}{when}**")
    return "\n\n".join(lines)


def describe_hardware(size: VmSize) -> str:
    """``4 × NVIDIA A100 80GB PCIe (80 GiB each), 96 vCPUs, 880 GiB of memory``."""
    parts = []
    if size.gpus:
        memory = f" ({show_number(size.gpu_memory_gib)} GiB each)" if size.gpu_memory_gib is not None else ""
        parts.append(f"{show_number(size.gpus)} × {size.gpu_model or 'GPU'}{memory}")
    else:
        parts.append("no GPU")
    parts += [plural(size.vcpus, "vCPU")] if size.vcpus is not None else []
    parts += [f"{show_number(size.ram_gib)} GiB of memory"] if size.ram_gib is not None else []
    return ", ".join(parts)


def describe_port(port: Port) -> str:
    """The type, default, range and description of an input or output of a component."""
    facts = [f"`{port.name}`: {port.type}"]
    facts += ["optional"] if port.optional else []
    facts += [f"default `{write_literal(port.default.value)}`"] if port.default is not None else []
    facts += [f"at least {show_number(port.min.value)}"] if port.min is not None else []
    facts += [f"at most {show_number(port.max.value)}"] if port.max is not None else []
    if port.enum is not None and isinstance(port.enum.value, list):
        facts.append("one of " + ", ".join(f"`{write_literal(word)}`" for word in port.enum.value))
    return "\n\n".join([", ".join(facts), *([port.description] if port.description else [])])


def describe_component(component: Component, name: str) -> str:
    """The name, description and inputs of a component."""
    title = component.display_name.value if component.display_name is not None else name
    text = component.description.value if component.description is not None else None
    lines = [f"**{title}** ({component.type} component `{name}`)"]
    lines += [str(text)] if text else []
    for label, ports in (("Inputs", component.inputs), ("Outputs", component.outputs)):
        if ports:
            lines.append(f"{label}: " + ", ".join(f"`{port.name}` ({port.type})" for port in ports.values()))
    return "\n\n".join(lines)


def describe_derivations(rows: Iterable[Derivation]) -> str:
    """Rows of the plan with their arithmetic: ``global_batch_size`` 256 = 32 × 1 × 8."""
    return "\n\n".join(
        f"plan: `{row.quantity}` **{show_number(row.value)}**"
        + (f" = {row.formula}" if row.formula else "")
        + (f" ({row.source})" if row.source else "")
        for row in rows
    )


def describe_step(plan: StepPlan) -> str:
    """The table that ``worldsize plan`` prints for a step."""
    rows: list[tuple[str, ...]] = [("quantity", "value", "", "source")]
    rows += [tuple(cell.replace("|", "\\|") for cell in row) for row in list_rows(plan.derivations)]
    lines = [f"**{plan.step}**", "", *_align(rows)]
    lines += [f"\nadvice: {advice}" for advice in plan.advice]
    return "\n".join(lines)


def _align(rows: list[tuple[str, ...]]) -> list[str]:
    """A table with aligned columns, for editors that show Markdown as text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = ["-" * width for width in widths]
    rule[1] = f"{rule[1][1:]}:"
    return [lines[0], "| " + " | ".join(rule) + " |", *lines[1:]]
