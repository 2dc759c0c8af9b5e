"""A plan as a table in colour on a terminal; and the memory of its training steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from worldsize.api import Planned
from worldsize.base.wording import format_memory, plural
from worldsize.planning.memory.estimate import SHARES
from worldsize.planning.memory.step_memory import Need, explain_unknown
from worldsize.planning.model import Plan
from worldsize.planning.plan_text import list_blocks


def renderables(plan: Plan) -> Iterator[object]:
    """The table as objects that rich prints."""
    from rich.padding import Padding  # plain output needs no rich
    from rich.table import Table
    from rich.text import Text

    yield Text(plan.name, "bold")
    for block in list_blocks(plan):
        yield Text("")
        if not block.has_table:
            yield Text(block.line, "dim")
            continue
        yield Text.assemble((block.steps[0], "bold cyan"), f"  {block.instances}")
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(style="bold green", justify="right", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(style="dim", overflow="fold")
        for row in block.rows:
            table.add_row(*row)
        yield Padding(table, (0, 0, 0, 2))
        for line in block.sweep:
            yield Padding(Text(line), (0, 0, 0, 2))
        for advice in block.advice:
            yield Padding(Text(f"advice: {advice}", "yellow"), (0, 0, 0, 2))


def show_plan(plan: Plan) -> None:
    """Print the table with rich."""
    from rich.console import Console

    console = Console(highlight=False)
    for part in renderables(plan):
        console.print(part)


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
        lines.append(f"  {share:<11}  {format_memory(size):>9}  {percent:>5}  {shown}".rstrip())
    return "\n".join(lines) + "\n"


def _format_percent(size: int, available: int | None) -> str:
    return "" if not available else f"{size / available:.1%}".replace("%", " %")


def _describe_available(need: Need) -> str:
    if need.available is None:
        return f"the {need.device} of this VM size is unknown"
    where = "of a GPU" if need.device == "GPU" else "of the instance's memory for each process"
    return f"of {format_memory(need.available)} {where}"


def _describe_network(need: Need) -> str:
    count = need.network.trained
    number = f"{count / 1e6:.1f} million" if count >= 1_000_000 else str(count)
    unit = "weights" if count >= 1_000_000 else plural(count, "weight").partition(" ")[2]
    return f"{number} {unit}, {need.setup.precision}, {need.setup.strategy}"
