"""The memory of each training step as a table: what it is for, bytes, share of what there is."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.azureml.model import Job
from worldsize.planning.memory.estimate import SHARES
from worldsize.planning.memory.step_memory import Need, explain_unknown
from worldsize.planning.memory.verdict import gib
from worldsize.planning.model import Plan
from worldsize.planning.numbers import plural

_MEANING = {
    "parameters": "weights of this rank",
    "gradients": "one for each trained weight of this rank",
    "optimizer": "moments, and the fp32 copy of weights kept in half precision",
    "activations": "what the backward pass needs, at the worst moment",
    "buffers": "working copies of weights, gradients being exchanged",
    "checkpoint": "the copy that a checkpoint is written from, in the host's memory",
    "reserve": "libraries, and a GPU's context",
}


def render_memory(plan: Plan, needs: Mapping[str, Need], job: Job, *, imported: bool) -> str:
    """One block a training step; a line for each of which too little is known.

    Args:
        plan: the plan.
        needs: by step, where it is known.
        job: the resolved graph, which says why the others are not.
        imported: whether users' models were imported.
    """
    blocks = [_block(name, need) for name, need in needs.items()]
    unknown = [name for name, step in plan.steps.items() if step.training is not None and name not in needs]
    blocks += [
        f"{name}  memory unknown: {explain_unknown(job, name, imported=imported)}\n" for name in unknown
    ]
    return "\n".join(blocks) if blocks else "no step trains\n"


def _block(name: str, need: Need) -> str:
    """The rank with the most."""
    found = need.breakdown
    rows = [(share, getattr(found, share), _MEANING[share]) for share in SHARES]
    rows.append(("total", found.total, _of(need)))
    lines = [f"{name}  memory of a process, `{need.network.name}` of {_count(need)}"]
    for share, size, meaning in rows:
        shown = meaning if need.network.exact or share != "activations" else "unknown: not counted"
        lines.append(f"  {share:<11}  {gib(size):>9}  {_percent(size, need.available):>5}  {shown}".rstrip())
    return "\n".join(lines) + "\n"


def _percent(size: int, available: int | None) -> str:
    return "" if not available else f"{size / available:.1%}".replace("%", " %")


def _of(need: Need) -> str:
    if need.available is None:
        return f"the {need.device} of this VM size is unknown"
    where = "of a GPU" if need.device == "GPU" else "of the instance's memory for each process"
    return f"of {gib(need.available)} {where}"


def _count(need: Need) -> str:
    count = need.network.trained
    number = f"{count / 1e6:.1f} million" if count >= 1_000_000 else str(count)
    unit = "weights" if count >= 1_000_000 else plural(count, "weight").partition(" ")[2]
    return f"{number} {unit}, {need.setup.precision}, {need.setup.strategy}"
