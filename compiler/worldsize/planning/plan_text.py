"""A plan as a table: plain text, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from worldsize.base.wording import plural, show_number

if TYPE_CHECKING:
    from worldsize.planning.model import Derivation, Plan, StepPlan  # which shows itself by this module

_LABELS = {
    "kappa": "κ",
    "shm_size": "shared memory",
    "gpus_per_instance": "GPUs per instance",
    "warmup_epochs": "warm-up epochs",
    "warmup_steps": "warm-up steps",
}
_UNITS = {"mean_time_between_preemptions": "s"}  # where the label does not name the unit


def render_plan(plan: Plan) -> str:
    """The table as plain text: a block for each training or distributed step, a line for the others."""
    blocks = [f"{plan.name}\n"]
    blocks += (
        _step_block(group[0]) if has_table(group[0]) else format_line(group) for group in group_steps(plan)
    )
    return "\n".join(blocks)


def group_steps(plan: Plan) -> list[list[StepPlan]]:
    """Group neighbouring steps that have no table and the same kind of instance."""
    key = enumerate(plan.steps.values())
    groups = groupby(key, lambda item: item[0] if has_table(item[1]) else (-1, describe_instances(item[1])))
    return [[step for _, step in group] for _, group in groups]


def has_table(step: StepPlan) -> bool:
    """Whether a step has numbers worth a table: it trains or is distributed."""
    return step.training is not None or step.topology.is_distributed


def describe_instances(step: StepPlan) -> str:
    """The instances of a step and what starts its processes."""
    topology = step.topology
    parts = [plural(topology.instance_count, "instance")]
    if topology.instance_type:
        parts = [f"{topology.instance_count} × {topology.instance_type}"]
    if topology.launcher != "none":
        parts.append(topology.launcher)
    if topology.command_launcher is not None:
        parts.append(topology.command_launcher)
    return ", ".join(parts)


def format_line(group: list[StepPlan]) -> str:
    """The line for steps without a table."""
    names = ", ".join(step.step for step in group)
    suffix = " each" if len(group) > 1 else ""
    return f"{names}  {describe_instances(group[0])}, one process{suffix}\n"


def _step_block(step: StepPlan) -> str:
    rows = [(label_quantity(row), show_value(row), show_formula(row), row.source) for row in step.derivations]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{step.step}  {describe_instances(step)}"]
    for name, value, formula, source in rows:
        cells = f"{name:<{widths[0]}}  {value:>{widths[1]}} {formula:<{widths[2]}}  {source}"
        lines.append(f"  {cells.rstrip()}")
    lines += [f"  {line}" for line in describe_sweep(step)]
    lines += [f"  advice: {advice}" for advice in step.advice]
    return "\n".join(lines) + "\n"


_OF_TRIALS = ("learning_rate", "global_batch_size", "batch_size_per_device", "gradient_accumulation_steps",
              "steps_per_epoch")  # fmt: skip


def describe_sweep(step: StepPlan) -> Iterator[str]:
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


def label_quantity(row: Derivation) -> str:
    """The name of a quantity as people say it."""
    return _LABELS.get(row.quantity, row.quantity.replace("_", " "))


def show_value(row: Derivation) -> str:
    """A value with its unit."""
    unit = _UNITS.get(row.quantity)
    return f"{show_number(row.value)} {unit}" if unit else show_number(row.value)


def show_formula(row: Derivation) -> str:
    """A formula behind its value."""
    return f"= {row.formula}" if row.formula else ""


def render_html(plan: Plan) -> str:
    """The table as HTML, for a notebook."""
    from worldsize.documents.diagnostics.html_table import render_html_table  # only a notebook needs it

    rows: list[tuple[str, str, str, str, str]] = []
    for group in group_steps(plan):
        step = group[0]
        if not has_table(step):
            rows.append((", ".join(each.step for each in group), "", "", "", describe_instances(step)))
            continue
        rows.append((step.step, "", "", "", describe_instances(step)))
        rows += [
            ("", label_quantity(row), show_value(row), show_formula(row), row.source)
            for row in step.derivations
        ]
        rows += [("", "advice", "", "", advice) for advice in step.advice]
    return render_html_table(f"Plan of {plan.name}", ("step", "quantity", "value", "formula", "source"), rows)
