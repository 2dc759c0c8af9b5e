"""The job that a schedule starts: its definition as it is stored, and its body at a firing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.serving.control.document import JsonObject, take_object, take_text
from worldsize.serving.errors import bad_request
from worldsize.serving.jobs.records import get_job
from worldsize.serving.schedules.records import Firing, ScheduleRecord, job_name
from worldsize.serving.workspace import Workspace

_MERGED = ("inputs", "outputs", "settings", "tags", "properties")  # key by key over the source job's
_OF_A_RUN = ("status", "services", "isArchived")  # a job's, not of its definition


def complete_definition(workspace: Workspace, definition: JsonObject) -> JsonObject:
    """The definition of a job, with what it takes over from the existing job that it names.

    Args:
        workspace: The workspace, with that job.
        definition: ``action.jobDefinition`` of the body.

    Returns:
        A definition that stands alone.

    Raises:
        ServiceError: 400: there is no such job, or no type of job.
    """
    source = take_text(definition, "sourceJobId", "properties.action.jobDefinition.")
    complete = definition if not source else _merge(_find(workspace, source), definition)
    where = "properties.action.jobDefinition."
    if take_text(complete, "jobType", where, required=True).lower() not in ("pipeline", "command"):
        message = f"A schedule starts pipelines, not jobs of type `{complete['jobType']}`."
        raise bad_request(message)
    for key in _MERGED:
        take_object(complete, key, where)
    return complete


def _find(workspace: Workspace, source: str) -> Mapping[str, Any]:
    name = source.removeprefix("azureml:").rpartition("/")[2]
    job = get_job(workspace.database, name)
    if job is None:
        raise bad_request(f"The job `{name}`, which the schedule starts again, was not found.")
    return job.properties


def _merge(source: Mapping[str, Any], changes: JsonObject) -> JsonObject:
    given = {key: value for key, value in changes.items() if value not in (None, "", {}, [])}
    merged = {key: value for key, value in source.items() if key not in _OF_A_RUN} | given
    for key in _MERGED:
        merged[key] = {**(source.get(key) or {}), **take_object(changes, key)}
    return merged


def fill_definition(schedule: ScheduleRecord, firing: Firing) -> JsonObject:
    """The body of the job of one firing.

    Args:
        schedule: The schedule.
        firing: Its due time.

    Returns:
        The properties, with the names of the job and of the trigger, and without expressions of schedules.
    """
    definition: JsonObject = dict(schedule.properties["action"]["jobDefinition"])
    name = job_name(firing)
    values = {"${{name}}": name, "${{creation_context.trigger_time}}": firing.due}
    for key in ("inputs", "outputs"):
        definition[key] = {port: _fill(value, values) for port, value in (definition.get(key) or {}).items()}
    definition["displayName"] = name
    definition["experimentName"] = definition.get("experimentName") or schedule.name
    definition["isArchived"] = False
    definition["properties"] = {
        **(definition.get("properties") or {}),
        "azureml.scheduleTrigger.scheduleName": schedule.name,
        "azureml.scheduleTrigger.triggerTime": firing.due,
    }
    return definition


def _fill(port: object, values: Mapping[str, str]) -> object:
    if not isinstance(port, dict):
        return port
    filled = dict(port)
    for key in ("value", "uri"):
        text = port.get(key)
        if not isinstance(text, str):
            continue
        if key == "uri" and text.strip() in values and port.get("jobInputType"):
            # azure-ai-ml takes an expression for a path; it stands for a text.
            return {"jobInputType": "literal", "value": values[text.strip()]}
        for expression, value in values.items():
            text = text.replace(expression, value)
        filled[key] = text
    return filled
