"""The plan behind each step: how every number was derived, and the processes that ran."""

from __future__ import annotations

import asyncio

from nicegui import ui

from worldsize.base.wording import plural
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.page.queries.logs import run_folder, step_names
from worldsize.serving.page.queries.plan import StepPlan, read_plans
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.files import code
from worldsize.serving.page.views.tables import Column, show_table, text_cell
from worldsize.serving.workspace import Workspace

_DERIVED = (
    Column("quantity", "Quantity"),
    Column("value", "Value", "ws-right ws-keep"),
    Column("formula", "Formula"),
    Column("source", "Source"),
)
_PROCESSES = (Column("name", "Process"), Column("rank", "Rank"), Column("node", "Node"))


async def draw_plan(workspace: Workspace, job: JobRecord) -> None:
    """The plans of a job's steps."""
    folder = run_folder(workspace.home, job)
    plans: list[StepPlan] = []
    if folder is not None:
        plans = await asyncio.to_thread(read_plans, folder, step_names(workspace.home, job))
    plans = [plan for plan in plans if plan.processes or plan.rows]
    if not plans:
        frame.empty("No step has started, so there is no plan to show.")
    for plan in plans:
        with frame.panel(plan.step):
            _show_plan(plan)


def _show_plan(plan: StepPlan) -> None:
    if plan.topology:
        frame.facts(plan.topology.items(), "ws-flow")
    if plan.inputs and not plan.rows:
        frame.heading("Planned inputs", 3)
        frame.facts(plan.inputs.items(), "ws-flow")
    if plan.rows:
        rows = [
            {
                "id": str(number),
                "quantity": text_cell(each.label),
                "value": text_cell(each.value),
                "formula": text_cell(each.formula),
                "source": text_cell(each.source),
            }
            for number, each in enumerate(plan.rows)
        ]
        show_table(f"Derivations of {plan.step}", _DERIVED, rows, empty="")
    if not plan.processes:
        return
    ran = f"{plural(len(plan.processes), 'process')} ran on this machine"
    frame.heading(ran + (f", attempt {plan.attempts}" if plan.attempts > 1 else ""), 3)
    rows = [
        {
            "id": each.name,
            "name": text_cell(each.name),
            "rank": text_cell(each.rank),
            "node": text_cell(each.node),
        }
        for each in plan.processes
    ]
    if len(rows) > 1:
        show_table(f"Processes of {plan.step}", _PROCESSES, rows, empty="")
    with ui.expansion("Command of the first process").classes("ws-more"):
        code(plan.processes[0].command, f"Command of {plan.processes[0].name}")
