"""A pipeline's steps as its body describes them, and those of their inputs that can be changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from worldsize.serving.control import assets
from worldsize.serving.control.assets import Asset
from worldsize.serving.control.uris import parse_asset
from worldsize.serving.database import Database
from worldsize.serving.jobs.records import JobRecord, get_job
from worldsize.serving.page.queries.forms import Field, component_fields
from worldsize.serving.page.queries.wording import mapping_of, text_of

KIND = "components"


def find_component(database: Database, reference: str) -> Asset | None:
    """The component of an id, a registered one or one that was sent with a job; None if it is elsewhere."""
    name = parse_asset(reference)
    if name is None or name.kind not in ("", KIND):
        return None
    if name.version is None:
        return assets.get_latest(database, KIND, name.name)
    return assets.get_version(database, KIND, name.name, name.version)


def step_body(database: Database, job: JobRecord) -> dict[str, Any]:
    """What the submitted body and its component say of a step; empty for others, and in components."""
    root = None if job.parent is None or job.step is None else get_job(database, job.root)
    node = {} if root is None else mapping_of(mapping_of(root.properties, "jobs"), str(job.step))
    component = find_component(database, text_of(node, "componentId"))
    spec = {} if component is None else mapping_of(component.properties, "componentSpec")
    said = {"command": spec.get("command"), "environmentId": spec.get("environment")}
    more = {name: spec.get(name) for name in ("distribution", "resources")}
    return {name: each for name, each in {**said, **more, **node}.items() if each is not None}


def step_fields(database: Database, properties: Mapping[str, Any]) -> dict[str, list[Field]]:
    """The values that the body of a pipeline sets, by step, with what the components say of them."""
    fields: dict[str, list[Field]] = {}
    for step, node in mapping_of(properties, "jobs").items():
        if not isinstance(node, Mapping):
            continue
        component = find_component(database, text_of(node, "componentId"))
        spec = {} if component is None else mapping_of(component.properties, "componentSpec")
        known = {field.name: field for field in component_fields(spec)}
        values = dict(_values(node))
        if values:
            fields[step] = [
                replace(known.get(name, Field(name, "")), default=value) for name, value in values.items()
            ]
    return fields


def change_steps(properties: Mapping[str, Any], changes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The body of a pipeline with other values, by step and input."""
    changed: dict[str, Any] = copy.deepcopy(dict(properties))
    for step, values in changes.items():
        inputs = changed["jobs"][step]["inputs"]
        for name, text in values.items():
            inputs[name]["value"] = text
    return changed


def _values(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The inputs of a step that are values, and not bound to something else."""
    for name, each in mapping_of(node, "inputs").items():
        value = each.get("value") if isinstance(each, Mapping) else None
        if isinstance(value, str | int | float) and "${{" not in str(value):
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
