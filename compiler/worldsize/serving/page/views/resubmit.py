"""Submits a job again with other inputs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from nicegui import ui

from worldsize.serving.errors import ServiceError
from worldsize.serving.jobs.records import JobRecord, get_job
from worldsize.serving.jobs.submit import submit
from worldsize.serving.page.queries.forms import Field, change_inputs, job_fields
from worldsize.serving.page.queries.steps import change_steps, step_fields
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.frame import Form
from worldsize.serving.workspace import Workspace

MAX_NAME = 120  # characters that a name takes over


def _next_name(name: str) -> str:
    """A new name that tells from which job it comes."""
    return f"{name[:MAX_NAME]}-{uuid.uuid4().hex[:8]}"


class InputForms:
    """The inputs of a job, and for a pipeline those that its body sets at the steps."""

    def __init__(self, workspace: Workspace, job: JobRecord) -> None:
        fields, steps = job_fields(job.properties), step_fields(workspace.database, job.properties)
        self._steps: dict[str, Form] = {}
        if fields or not steps:
            with frame.panel("Inputs"):
                if not fields:
                    ui.label("This job has no inputs.").classes("ws-soft")
                self._form = Form(fields)
        else:
            self._form = Form([])
        for name, values in steps.items():
            with frame.panel(f"Inputs of the step {name}"):
                self._steps[name] = Form(values)

    @property
    def faults(self) -> list[str]:
        """Why values cannot be submitted."""
        faults = [f"{key}: {fault}" for key, fault in self._form.faults.items()]
        for step, form in self._steps.items():
            faults += [f"{step}, {key}: {fault}" for key, fault in form.faults.items()]
        return faults

    def change(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the job with the values of the forms."""
        changed = change_inputs(properties, self._form.values)
        return change_steps(changed, {step: form.values for step, form in self._steps.items()})


def draw_resubmit(workspace: Workspace, name: str) -> None:
    """The form of a job's inputs."""
    job = get_job(workspace.database, name)
    if job is None or job.parent is not None:
        frame.not_found(workspace, f"Job {name}", "Jobs")
        return
    crumbs = [("Jobs", "/"), (job.display_name, frame.address("jobs", name))]
    with frame.frame(workspace, f"Resubmit {job.display_name}", "Jobs", crumbs):
        frame.heading(f"Resubmit {job.display_name}", 1)
        ui.label("A new job runs with these values. Everything else is as it was submitted.").classes(
            "ws-soft"
        )
        title = Form([Field("Display name", "", job.display_name)])
        inputs = InputForms(workspace, job)
        message = frame.error("")
        message.set_visibility(False)

        async def send() -> None:
            if faults := inputs.faults:
                message.set_text("\n".join(faults))
                message.set_visibility(True)
                return
            properties = inputs.change(job.properties)
            properties["displayName"] = title.values["Display name"] or job.display_name
            submitting.disable()
            try:
                made = await asyncio.shield(submit(workspace, _next_name(name), properties))
            except ServiceError as error:
                message.set_text(str(error))
                message.set_visibility(True)
                submitting.enable()
                return
            ui.navigate.to(frame.address("jobs", made.name))

        with ui.element("div").classes("ws-row"):
            submitting = frame.button("Submit", send, "ws-primary")
            frame.link("Back to the job", frame.address("jobs", name))
