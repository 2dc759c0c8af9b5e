"""A plan as a table, in colour on a terminal, else as aligned text; and the memory of its training steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from worldsize.api import Planned
from worldsize.base.wording import plural, show_number
from worldsize.planning.memory.estimate import SHARES
from worldsize.planning.memory.step_memory import Need, explain_unknown
from worldsize.planning.memory.verdict import format_bytes
from worldsize.planning.model import Derivation, Plan, StepPlan

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
        _step_block(group[0]) if _has_table(group[0]) else _format_line(group) for group in _group_steps(plan)
    )
    return "\n".join(blocks)


def renderables(plan: Plan) -> Iterator[object]:
    """The table as objects that rich prints."""
    from rich.padding import Padding  # plain output needs no rich
    from rich.table import Table
    from rich.text import Text

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
        for line in _describe_sweep(step):
            yield Padding(Text(line), (0, 0, 0, 2))
        for advice in step.advice:
            yield Padding(Text(f"advice: {advice}", "yellow"), (0, 0, 0, 2))


def show_plan(plan: Plan) -> None:
    """Print the table with rich."""
    from rich.console import Console

    console = Console(highlight=False)
    for part in renderables(plan):
        console.print(part)


def _group_steps(plan: Plan) -> list[list[StepPlan]]:
    """Group neighbouring steps that have no table and the same kind of instance."""
    key = enumerate(plan.steps.values())
    groups = groupby(key, lambda item: item[0] if _has_table(item[1]) else (-1, _describe_instances(item[1])))
    return [[step for _, step in group] for _, group in groups]


def _has_table(step: StepPlan) -> bool:
    return step.training is not None or step.topology.is_distributed


def _describe_instances(step: StepPlan) -> str:
    topology = step.topology
    parts = [plural(topology.instance_count, "instance")]
    if topology.instance_type:
        parts = [f"{topology.instance_count} × {topology.instance_type}"]
    if topology.launcher != "none":
        parts.append(topology.launcher)
    if topology.command_launcher is not None:
        parts.append(topology.command_launcher)
    return ", ".join(parts)


def _format_line(group: list[StepPlan]) -> str:
    names = ", ".join(step.step for step in group)
    suffix = " each" if len(group) > 1 else ""
    return f"{names}  {_describe_instances(group[0])}, one process{suffix}\n"


def _step_block(step: StepPlan) -> str:
    rows = [(_label(row), _value(row), _formula(row), row.source) for row in step.derivations]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{step.step}  {_describe_instances(step)}"]
    for name, value, formula, source in rows:
        cells = f"{name:<{widths[0]}}  {value:>{widths[1]}} {formula:<{widths[2]}}  {source}"
        lines.append(f"  {cells.rstrip()}")
    lines += [f"  {line}" for line in _describe_sweep(step)]
    lines += [f"  advice: {advice}" for advice in step.advice]
    return "\n".join(lines) + "\n"


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


def _label(row: Derivation) -> str:
    return _LABELS.get(row.quantity, row.quantity.replace("_", " "))


def _value(row: Derivation) -> str:
    unit = _UNITS.get(row.quantity)
    return f"{show_number(row.value)} {unit}" if unit else show_number(row.value)


def _formula(row: Derivation) -> str:
    return f"= {row.formula}" if row.formula else ""


_MEANING = {
    "parameters": "weights of this rank",
    "gradients": "one for each trained weight of this rank",
    "optimizer": "moments, and the fp32 copy of weights kept in half precision",
    "activations": "inputs that the backward pass needs, at the worst moment",
    "buffers": "working copies of weights, gradients being exchanged",
    "checkpoint": "the copy in the host's memory from which a checkpoint is written",
    "reserve": "libraries, and a GPU's context",
}


def render_memory(planned: Planned, needs: Mapping[str, Need], *, imported: bool) -> str:
    """A block for each training step, or a line that says why its memory is unknown.

    ``imported`` says whether users' models were imported.
    """
    plan, job = planned.plan, planned.resolved.job
    blocks = [_memory_block(name, need) for name, need in needs.items()]
    unknown = [name for name, step in plan.steps.items() if step.training is not None and name not in needs]
    reasons = ((name, explain_unknown(job, name, imported=imported)) for name in unknown)
    blocks += [f"{name}  memory unknown: {reason}\n" for name, reason in reasons]
    return "\n".join(blocks) if blocks else "no step trains\n"


def _memory_block(name: str, need: Need) -> str:
    """The memory of the rank that needs most."""
    breakdown = need.breakdown
    rows = [(share, getattr(breakdown, share), _MEANING[share]) for share in SHARES]
    rows.append(("total", breakdown.total, _describe_available(need)))
    lines = [f"{name}  memory of a process, `{need.network.name}` of {_describe_network(need)}"]
    for share, size, meaning in rows:
        shown = meaning if need.network.exact or share != "activations" else "unknown: not counted"
        percent = _format_percent(size, need.available)
        lines.append(f"  {share:<11}  {format_bytes(size):>9}  {percent:>5}  {shown}".rstrip())
    return "\n".join(lines) + "\n"


def _format_percent(size: int, available: int | None) -> str:
    return "" if not available else f"{size / available:.1%}".replace("%", " %")


def _describe_available(need: Need) -> str:
    if need.available is None:
        return f"the {need.device} of this VM size is unknown"
    where = "of a GPU" if need.device == "GPU" else "of the instance's memory for each process"
    return f"of {format_bytes(need.available)} {where}"


def _describe_network(need: Need) -> str:
    count = need.network.trained
    number = f"{count / 1e6:.1f} million" if count >= 1_000_000 else str(count)
    unit = "weights" if count >= 1_000_000 else plural(count, "weight").partition(" ")[2]
    return f"{number} {unit}, {need.setup.precision}, {need.setup.strategy}"
