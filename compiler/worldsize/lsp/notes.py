"""Markdown about one thing: a VM size, a component, an input, a rule, a row of the plan."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from worldsize.azureml.model import Component, Port
from worldsize.base.wording import plural, show_number
from worldsize.facts import vm_sizes
from worldsize.facts.prices import TIERS, PriceList
from worldsize.facts.vm_sizes import VmSize
from worldsize.planning.model import Derivation, StepPlan
from worldsize.planning.plan_text import list_rows
from worldsize.rules import pages
from worldsize.rules.rule import Rule
from worldsize.spec import cron


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
    facts += [f"default `{_write(port.default.value)}`"] if port.default is not None else []
    facts += [f"at least {show_number(port.min.value)}"] if port.min is not None else []
    facts += [f"at most {show_number(port.max.value)}"] if port.max is not None else []
    if port.enum is not None and isinstance(port.enum.value, list):
        facts.append("one of " + ", ".join(f"`{_write(word)}`" for word in port.enum.value))
    return "\n\n".join([", ".join(facts), *([port.description] if port.description else [])])


def describe_component(component: Component, name: str) -> str:
    """The name, description and inputs of a component."""
    title = component.display_name.value if component.display_name is not None else name
    text = component.description.value if component.description is not None else None
    lines = [f"**{title}** ({component.type} component `{name}`)"]
    lines += [str(text)] if text else []
    for label, ports in (("Inputs", component.inputs), ("Outputs", component.outputs)):
        if ports:
            lines.append(f"{label}: " + ", ".join(f"`{each.name}` ({each.type})" for each in ports.values()))
    return "\n\n".join(lines)


def describe_rule(rule: Rule) -> str:
    """The page of a rule."""
    return f"{rule.code} `{rule.slug}` ({rule.severity})\n\n{pages.read(rule)}"


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


def describe_fire_times(expression: str) -> str | None:
    """When a schedule fires next; None where its expression has faults."""
    if any(not fault.ignored for fault in cron.check_cron(expression)):
        return None
    times = "".join(f"- {each:%a %Y-%m-%d %H:%M}\n" for each in cron.next_times(expression, datetime.now()))
    return f"fires next, on the clock of the schedule's `time_zone`:\n\n{times}"


def _align(rows: list[tuple[str, ...]]) -> list[str]:
    """A table whose columns stand below each other also where an editor shows Markdown as it is written."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = ["-" * width for width in widths]
    rule[1] = f"{rule[1][1:]}:"
    return [lines[0], "| " + " | ".join(rule) + " |", *lines[1:]]


def _write(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
