"""The plan behind a step: the derivations of a compiled spec, and the processes that ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from worldsize.base.wording import show_number
from worldsize.planning.model import Derivation
from worldsize.planning.plan_text import PlanRow, list_rows
from worldsize.planning.quantities import MACHINE, PLANNED, label_quantity
from worldsize.running.model.folder import RunFolder
from worldsize.running.record.events import scan_events
from worldsize.running.record.history import load_run
from worldsize.running.record.json_files import read_json
from worldsize.serving.page.queries.wording import mapping_of, text_of


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the step's last attempt."""

    name: str
    rank: str
    node: str
    command: str


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What is known of the plan of one step."""

    step: str
    topology: Mapping[str, str]
    inputs: Mapping[str, str]  # that the plan fills wherever a component declares them
    rows: tuple[PlanRow, ...]
    processes: tuple[Process, ...]
    attempts: int = 0


def read_plans(folder: RunFolder, steps: list[str]) -> list[StepPlan]:
    """The plans of steps, from the compiled spec where there is one and from the log of the run."""
    document = read_json(folder.pipeline / "plan.json") or {}
    planned = mapping_of(document, "steps")
    recorded = load_run(folder.root).steps
    started: dict[str, list[Mapping[str, Any]]] = {}
    for event in scan_events(folder.events)[0]:
        if event["event"] == "step_started":
            started.setdefault(str(event.get("step")), []).append(event)
    return [
        _step_plan(
            step,
            mapping_of(planned, step),
            started.get(step, []),
            recorded[step].parameters if step in recorded else {},
        )
        for step in steps
    ]


def _step_plan(
    step: str, plan: Mapping[str, Any], attempts: list[Mapping[str, Any]], parameters: Mapping[str, str]
) -> StepPlan:
    topology = mapping_of(plan, "topology")
    listed = attempts[-1].get("processes") if attempts else None
    derivations = plan.get("derivations")
    return StepPlan(
        step=step,
        topology={label_quantity(key): _show(value) for key, value in topology.items() if value is not None},
        inputs={
            label_quantity(name): value
            for name, value in parameters.items()
            if name in PLANNED or name in MACHINE
        },
        rows=tuple(
            list_rows(
                Derivation(
                    text_of(each, "quantity"),
                    each.get("value", ""),
                    text_of(each, "formula"),
                    text_of(each, "source"),
                )
                for each in (derivations if isinstance(derivations, list) else [])
                if isinstance(each, Mapping)
            )
        ),
        processes=tuple(
            _process(each)
            for each in (listed if isinstance(listed, list) else [])
            if isinstance(each, Mapping)
        ),
        attempts=len(attempts),
    )


def _process(process: Mapping[str, Any]) -> Process:
    argv = process.get("argv")
    words = [str(word) for word in argv] if isinstance(argv, list) else []
    command = words[-1] if words[:2] == ["bash", "-c"] else " ".join(words)
    return Process(
        name=text_of(process, "name"),
        rank=_show(process.get("rank")),
        node=_show(process.get("node")),
        command=command,
    )


def _show(value: Any) -> str:
    if value is None:
        return "–"
    return (
        show_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    )
