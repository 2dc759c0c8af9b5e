"""The rows of a plan, which all its tables have; and the table as plain text, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from worldsize.base.wording import plural, show_number
from worldsize.planning.quantities import find_unit, label_quantity

if TYPE_CHECKING:
    from worldsize.planning.model import Derivation, Plan, StepPlan  # which shows itself by this module


class PlanRow(NamedTuple):
    """A quantity with its value, how it follows from others, and where it is from."""

    label: str
    value: str  # with its unit
    formula: str  # behind an equals sign; empty where nothing was computed
    source: str


class PlanBlock(NamedTuple):
    """A step that trains or is distributed, with its rows; or neighbours that are neither, without any."""

    steps: tuple[str, ...]
    instances: str
    has_table: bool
    rows: tuple[PlanRow, ...] = ()
    sweep: tuple[str, ...] = ()  # sentences
    advice: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """What stands for the block, or above its rows."""
        line = f"{', '.join(self.steps)}  {self.instances}"
        return line if self.has_table else f"{line}, one process{' each' * (len(self.steps) > 1)}"


def list_blocks(plan: Plan) -> Iterator[PlanBlock]:
    """The blocks of a plan in its order: neighbours of the same kind of instance share a line."""
    key = enumerate(plan.steps.values())
    for _, group in groupby(key, lambda item: item[0] if _has_table(item[1]) else (-1, _instances(item[1]))):
        steps = [step for _, step in group]
        names, first = tuple(step.step for step in steps), steps[0]
        if _has_table(first):
            rows, sweep = tuple(list_rows(first.derivations)), tuple(_describe_sweep(first))
            yield PlanBlock(names, _instances(first), True, rows, sweep, first.advice)
        else:
            yield PlanBlock(names, _instances(first), False)


def list_rows(derivations: Iterable[Derivation]) -> Iterator[PlanRow]:
    """The rows of quantities."""
    for row in derivations:
        unit = find_unit(row.quantity)
        value = f"{show_number(row.value)} {unit}" if unit else show_number(row.value)
        formula = f"= {row.formula}" if row.formula else ""
        yield PlanRow(label_quantity(row.quantity), value, formula, row.source)


def _has_table(step: StepPlan) -> bool:
    return step.training is not None or step.topology.is_distributed


def _instances(step: StepPlan) -> str:
    topology = step.topology
    parts = [plural(topology.instance_count, "instance")]
    if topology.instance_type:
        parts = [f"{topology.instance_count} × {topology.instance_type}"]
    if topology.launcher != "none":
        parts.append(topology.launcher)
    if topology.command_launcher is not None:
        parts.append(topology.command_launcher)
    return ", ".join(parts)


_OF_TRIALS = ("learning_rate", "global_batch_size", "batch_size_per_device", "gradient_accumulation_steps",
              "steps_per_epoch")  # fmt: skip


def _describe_sweep(step: StepPlan) -> Iterator[str]:
    """What a sweep costs, and the numbers that differ between its trials."""
    sweep = step.sweep
    if sweep is None:
        return
    instances, total = step.topology.instance_count, sweep.max_total_trials
    yield (
        f"sweep over {', '.join(sweep.searched)}: at most {plural(total, 'trial')},"
        f" {sweep.max_concurrent_trials} at once; {total} × {plural(instances, 'instance')}"
        f" = {total * instances} instance runs"
    )
    for trial in sweep.trials:
        values = ", ".join(f"{name} {value}" for name, value in trial.values.items())
        shown = [name for name in _OF_TRIALS if name in sweep.varying and name in trial.inputs]
        numbers = ", ".join(f"{name.replace('_', ' ')} {show_number(trial.inputs[name])}" for name in shown)
        yield f"  {values}: {numbers or 'nothing else differs'}"
    if not sweep.trials and "learning_rate" in sweep.varying and step.training is not None:
        factor = {"linear": " × κ", "sqrt": " × √κ"}.get(step.training.rule, "")
        yield f"  learning rate = reference_learning_rate{factor}, κ {show_number(step.training.kappa)}"


def render_plan(plan: Plan) -> str:
    """The table as plain text: a block for each training or distributed step, a line for the others."""
    return "\n".join([f"{plan.name}\n", *map(_render_block, list_blocks(plan))])


def _render_block(block: PlanBlock) -> str:
    widths = [max((len(row[column]) for row in block.rows), default=0) for column in range(3)]
    lines = [block.line]
    for label, value, formula, source in block.rows:
        cells = f"{label:<{widths[0]}}  {value:>{widths[1]}} {formula:<{widths[2]}}  {source}"
        lines.append(f"  {cells.rstrip()}")
    lines += [f"  {line}" for line in block.sweep]
    lines += [f"  advice: {advice}" for advice in block.advice]
    return "\n".join(lines) + "\n"


def render_html(plan: Plan) -> str:
    """The table as HTML, for a notebook."""
    from worldsize.base.shown_text import render_html_table  # only a notebook needs it

    rows: list[tuple[str, ...]] = []
    for block in list_blocks(plan):
        rows.append((", ".join(block.steps), "", "", "", block.instances))
        rows += [("", *row) for row in block.rows]
        rows += [("", "advice", "", "", advice) for advice in block.advice]
    return render_html_table(f"Plan of {plan.name}", ("step", "quantity", "value", "formula", "source"), rows)
