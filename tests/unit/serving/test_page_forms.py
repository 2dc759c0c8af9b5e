"""The forms of components and jobs, the plan behind steps, and the legends of charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worldsize.running.model.folder import RunFolder
from worldsize.serving.page.queries.forms import (
    Field,
    change_inputs,
    check_value,
    component_fields,
    job_fields,
)
from worldsize.serving.page.queries.steps import read_plans
from worldsize.serving.page.views.metrics import LONGEST_NAME, fit_names

SPEC: dict[str, Any] = {
    "inputs": {
        "rows": {"type": "uri_folder", "description": "What to train on."},
        "rate": {"type": "number", "default": "0.1", "min": "0", "max": "1.0"},
        "epochs": {"type": "Integer", "default": 3, "min": 1},
        "optimizer": {"type": "string", "enum": ["sgd", "adam"], "default": "sgd"},
        "shuffle": {"type": "boolean", "default": True},
        "note": {"type": "string", "optional": True},
        "broken": "text",
    }
}


def test_the_form_of_a_component() -> None:
    fields = {field.name: field for field in component_fields(SPEC)}
    assert fields.keys() == SPEC["inputs"].keys() - {"broken"}
    assert fields["rows"].data
    assert fields["rate"] == Field("rate", "number", "0.1", minimum=0.0, maximum=1.0)
    assert fields["epochs"].hint == "integer, at least 1"
    assert (fields["optimizer"].type, fields["optimizer"].choices) == ("enum", ("sgd", "adam"))
    assert fields["shuffle"].default == "true"
    assert fields["note"].hint == "string, optional"
    assert component_fields({}) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("rate", "0.5", None),
        ("rate", "2", "The value must be at most 1."),
        ("rate", "-1", "The value must be at least 0."),
        ("rate", "nan", "This is not a number."),
        ("rate", "fast", "This is not a number."),
        ("rate", "", "A value is needed."),
        ("epochs", "1.5", "This is not a whole number."),
        ("epochs", "9" * 400, "This is not a whole number."),
        ("optimizer", "lamb", "Choose one of sgd, adam."),
        ("note", "", None),
        ("note", "anything", None),
    ],
)
def test_values_are_checked(name: str, text: str, fault: str | None) -> None:
    fields = {field.name: field for field in component_fields(SPEC)}
    assert check_value(fields[name], text) == fault


def test_a_job_is_changed_in_its_inputs_only() -> None:
    body = {
        "jobType": "Pipeline",
        "inputs": {
            "rate": {"jobInputType": "literal", "value": "0.1"},
            "rows": {"jobInputType": "uri_file", "uri": "azureml:rows:1", "mode": "ReadOnlyMount"},
        },
        "jobs": {"a": {}},
    }
    before = json.dumps(body)
    assert [(field.name, field.type, field.default) for field in job_fields(body)] == [
        ("rate", "", "0.1"),
        ("rows", "uri_file", "azureml:rows:1"),
    ]
    changed = change_inputs(body, {"rate": "0.2", "rows": "azureml:rows:2"})
    assert changed["inputs"]["rate"] == {"jobInputType": "literal", "value": "0.2"}
    assert changed["inputs"]["rows"]["uri"] == "azureml:rows:2"
    assert changed["jobs"] == body["jobs"]
    assert json.dumps(body) == before


def test_a_plan_has_derivations_and_processes(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.pipeline.mkdir()
    plan = {
        "topology": {"world_size": 8, "strategy": None, "gpus_per_instance": 4.0},
        "derivations": [{"quantity": "world_size", "value": 8, "formula": "2 × 4", "source": "W = n·p"}, "x"],
    }
    (folder.pipeline / "plan.json").write_text(json.dumps({"steps": {"train": plan}}))
    argv = ["bash", "-c", "python train.py"]
    events = [
        {"event": "step_started", "step": "train", "processes": [{"name": "rank-0"}]},
        {
            "event": "step_started",
            "step": "train",
            "processes": [{"name": "rank-0", "rank": 0, "argv": argv}, 7],
        },
    ]
    folder.events.write_text("\n".join(map(json.dumps, events)) + "\ndamaged")
    recorded = {"train": {"parameters": {"learning_rate": "0.4", "model": "cnn"}}}
    (tmp_path / "run.json").write_text(json.dumps({"steps": recorded}))
    train, other = read_plans(folder, ["train", "other"])
    assert train.topology == {"world size": "8", "GPUs per instance": "4"}
    assert train.rows == (("world size", "8", "= 2 × 4", "W = n·p"),)
    assert [(each.name, each.rank, each.node, each.command) for each in train.processes] == [
        ("rank-0", "0", "–", "python train.py")
    ]
    assert train.attempts == 2
    assert train.inputs == {"learning rate": "0.4"}
    assert (other.topology, other.rows, other.processes) == ({}, (), ())


BASE = "Handwritten digits, PyTorch DDP"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["train", "loss"], ["train", "loss"]),
        (
            [f"{BASE} · train", f"{BASE}, smaller learning rate · train"],
            [f"{BASE} · train", "Handwritten digits,…earning rate · train"],
        ),
        ([f"{BASE}{number}{'x' * 30}" for number in range(2)], None),  # alike at both ends: left as they are
    ],
)
def test_a_long_name_keeps_its_end(names: list[str], shown: list[str] | None) -> None:
    fitted = fit_names({name: [(1.0, 2.0)] for name in names})
    assert list(fitted) == (shown or names)
    assert shown is None or all(len(name) <= LONGEST_NAME for name in fitted)
