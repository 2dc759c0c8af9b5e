"""A plan as a table: on a terminal with colours and wrapped cells, elsewhere as plain aligned text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from worldsize.planning.model import Derivation, Plan, StepPlan
from worldsize.base.wording import plural, show_number

_LABELS = {
    "kappa": "κ",
    "shm_size": "shared memory",
    "gpus_per_instance": "GPUs per instance",
    "warmup_epochs": "warm-up epochs",
    "warmup_steps": "warm-up steps",
}
_UNITS = {"mean_time_between_preemptions": "s"}  # where the label does not say it


def render_plan(plan: Plan) -> str:
    """The table as plain text, one block a training or distributed step and one line for the others."""
    blocks = [f"{plan.name}\n"]
    blocks += (_block(group[0]) if _has_table(group[0]) else _format_line(group) for group in _group_steps(plan))
    return "\n".join(blocks)


def renderables(plan: Plan) -> Iterator[object]:
    """The table as things that rich prints."""
    from rich.padding import Padding  # noqa: PLC0415 - plain output needs no rich
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    yield Text(plan.name, "bold")
    for group in _group_steps(plan):
        step = group[0]
        yield Text("")
        if not _has_table(step):
            yield Text(_format_line(group).rstrip("\n"), "dim")
            continue
        yield Text.assemble((step.step, "bold cyan"), f"  {_describe_instances(step)}")
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(style="bold green", justify="right", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(style="dim", overflow="fold")
        for row in step.derivations:
            table.add_row(_label(row), _value(row), _formula(row), row.source)
        yield Padding(table, (0, 0, 0, 2))
        for advice in step.advice:
            yield Padding(Text(f"advice: {advice}", "yellow"), (0, 0, 0, 2))


def show_plan(plan: Plan) -> None:
    """Print the table with rich."""
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False)
    for part in renderables(plan):
        console.print(part)


def _group_steps(plan: Plan) -> list[list[StepPlan]]:
    """Each step with a table on its own; neighbours without one, on the same kind of instance, together."""
    key = enumerate(plan.steps.values())
    found = groupby(key, lambda item: item[0] if _has_table(item[1]) else (-1, _describe_instances(item[1])))
    return [[step for _, step in group] for _, group in found]


def _has_table(step: StepPlan) -> bool:
    return step.training is not None or step.topology.launcher != "none"


def _describe_instances(step: StepPlan) -> str:
    topology = step.topology
    parts = [plural(topology.instance_count, "instance")]
    if topology.instance_type:
        parts = [f"{topology.instance_count} × {topology.instance_type}"]
    if topology.launcher != "none":
        parts.append(topology.launcher)
    return ", ".join(parts)


def _format_line(group: list[StepPlan]) -> str:
    names = ", ".join(step.step for step in group)
    each = " each" if len(group) > 1 else ""
    return f"{names}  {_describe_instances(group[0])}, one process{each}\n"


def _block(step: StepPlan) -> str:
    rows = [(_label(row), _value(row), _formula(row), row.source) for row in step.derivations]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{step.step}  {_describe_instances(step)}"]
    for name, value, formula, source in rows:
        cells = f"{name:<{widths[0]}}  {value:>{widths[1]}} {formula:<{widths[2]}}  {source}"
        lines.append(f"  {cells.rstrip()}")
    lines += [f"  advice: {advice}" for advice in step.advice]
    return "\n".join(lines) + "\n"


def _label(row: Derivation) -> str:
    return _LABELS.get(row.quantity, row.quantity.replace("_", " "))


def _value(row: Derivation) -> str:
    unit = _UNITS.get(row.quantity)
    return f"{show_number(row.value)} {unit}" if unit else show_number(row.value)


def _formula(row: Derivation) -> str:
    return f"= {row.formula}" if row.formula else ""
