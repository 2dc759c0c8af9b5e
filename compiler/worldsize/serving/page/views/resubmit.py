"""Submits a job again with other inputs."""

from __future__ import annotations

import asyncio
import uuid

from nicegui import ui

from worldsize.serving.errors import ServiceError
from worldsize.serving.jobs.records import get_job
from worldsize.serving.jobs.submit import submit
from worldsize.serving.page.queries.forms import Field, change_inputs, job_fields
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.form import Form
from worldsize.serving.workspace import Workspace

MAX_NAME = 120  # characters that a name takes over


def next_name(name: str) -> str:
    """A new name that tells from which job it comes."""
    return f"{name[:MAX_NAME]}-{uuid.uuid4().hex[:8]}"


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
        fields = job_fields(job.properties)
        with frame.panel("Inputs"):
            if not fields:
                ui.label("This job has no inputs.").classes("ws-soft")
            form = Form(fields)
        message = frame.error("")
        message.set_visibility(False)

        async def send() -> None:
            if faults := form.faults:
                message.set_text("\n".join(f"{key}: {fault}" for key, fault in faults.items()))
                message.set_visibility(True)
                return
            properties = change_inputs(job.properties, form.values)
            properties["displayName"] = title.values["Display name"] or job.display_name
            submitting.disable()
            try:
                made = await asyncio.shield(submit(workspace, workspace.scope, next_name(name), properties))
            except ServiceError as error:
                message.set_text(str(error))
                message.set_visibility(True)
                submitting.enable()
                return
            ui.navigate.to(frame.address("jobs", made.name))

        with ui.element("div").classes("ws-row"):
            submitting = frame.button("Submit", send, "ws-primary")
            frame.link("Back to the job", frame.address("jobs", name))
