"""What the page reads of a pipeline's steps: their inputs, what they tracked, and which log comes first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from serving import make_workspace

from worldsize.running.model.folder import RunFolder
from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.serving.control.assets import put_version
from worldsize.serving.jobs.records import JobRecord, child_name, insert
from worldsize.serving.page.queries.files import Log, choose_log, step_names
from worldsize.serving.page.queries.jobs import jobs_below, tracked_ids
from worldsize.serving.page.queries.steps import change_steps, step_body, step_fields
from worldsize.serving.page.views.jobs import by_row, differing
from worldsize.serving.workspace import Workspace

COMPONENT = "azureml_anonymous"
SPEC = {
    "inputs": {"epochs": {"type": "integer", "min": 1}, "rows": {"type": "uri_folder"}},
    "command": "python train.py",
    "environment": "azureml:tiny:1",
}
BODY: dict[str, Any] = {
    "jobs": {
        "train": {
            "componentId": f"azureml:{COMPONENT}:1",
            "resources": {"instance_count": 2},
            "inputs": {
                "rows": {"job_input_type": "literal", "value": "${{parent.jobs.make.outputs.rows}}"},
                "epochs": {"job_input_type": "literal", "value": "3"},
                "other": {"job_input_type": "literal", "value": True},
                "data": {"job_input_type": "uri_file", "uri": "azureml:rows:1"},
            },
        },
        "make": {"componentId": "azureml:none:1", "inputs": {}},
        "broken": 7,
    }
}


def job(name: str, **more: Any) -> JobRecord:
    values: dict[str, Any] = {
        "type": "Pipeline",
        "display_name": name,
        "experiment": "Default",
        "status": "Completed",
        "properties": BODY,
        "root": name,
        "created": "2026-01-02T03:04:05.000000Z",
        **more,
    }
    return JobRecord(name=name, **values)


def step(root: str, name: str) -> JobRecord:
    return job(child_name(root, name), parent=root, root=root, step=name, properties={})


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path)
    put_version(workspace.database, "components", COMPONENT, "1", {"componentSpec": SPEC})
    for root in ("first", "second"):
        insert(workspace.database, job(root))
        insert(workspace.database, step(root, "train"))
        insert(workspace.database, step(root, "train.0"))
    return workspace


def reuse(workspace: Workspace, run: str, source: str) -> None:
    folder = RunFolder(workspace.home.runs / run).step("train").root
    folder.mkdir(parents=True)
    (folder / "reused.json").write_text(json.dumps({"run": source, "step": "train"}))


def test_the_values_that_steps_are_given_can_be_changed(workspace: Workspace) -> None:
    fields = step_fields(workspace.database, BODY)
    assert list(fields) == ["train"]
    assert [(field.name, field.type, field.default) for field in fields["train"]] == [
        ("epochs", "integer", "3"),
        ("other", "", "true"),
    ]
    assert fields["train"][0].minimum == 1
    before = json.dumps(BODY)
    changed = change_steps(BODY, {"train": {"epochs": "5"}})
    assert changed["jobs"]["train"]["inputs"]["epochs"] == {"job_input_type": "literal", "value": "5"}
    assert changed["jobs"]["make"] == BODY["jobs"]["make"]
    assert json.dumps(BODY) == before


def test_a_step_is_described_by_its_body_and_component(workspace: Workspace) -> None:
    body = step_body(workspace.database, step("first", "train"))
    assert (body["command"], body["environmentId"]) == ("python train.py", "azureml:tiny:1")
    assert body["resources"] == {"instance_count": 2}
    assert step_body(workspace.database, step("first", "train.0")) == {}
    assert step_body(workspace.database, job("first")) == {}


def test_a_reused_step_shows_what_the_original_tracked(workspace: Workspace) -> None:
    reuse(workspace, "second", "first")
    reuse(workspace, "third", "first")
    reuse(workspace, "fourth", "alone")
    (workspace.home.runs / "first").mkdir()
    jobs = [job("second"), *(step(root, "train") for root in ("first", "second", "third", "fourth"))]
    original = child_name("first", "train")
    assert list(tracked_ids(workspace, jobs).values()) == ["second", original, original, original, "alone"]


def test_the_jobs_below_a_step_are_its_own(workspace: Workspace) -> None:
    assert len(jobs_below(workspace.database, job("first"))) == 2
    assert [each.step for each in jobs_below(workspace.database, step("first", "train"))] == ["train.0"]


def test_steps_are_in_the_order_of_the_pipeline(workspace: Workspace) -> None:
    folder = workspace.home.runs / "first"
    for name in ("evaluate", "shard", "train.10", "train.9"):
        (folder / "steps" / name).mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"steps": {"shard": {}, "evaluate": {}, "register": {}}}))
    assert step_names(workspace.home, job("first")) == ["shard", "evaluate", "train.9", "train.10"]
    (folder / "run.json").write_text("[]")
    assert step_names(workspace.home, job("first")) == ["evaluate", "shard", "train.9", "train.10"]


@pytest.mark.parametrize(
    ("states", "key"),
    [
        ({"a": "succeeded", "b": "failed"}, "b/rank-1"),
        ({"a": "running", "b": "waiting"}, "a/rank-0"),
        ({"a": "succeeded", "b": "running"}, "b/rank-0"),
        ({"a": "succeeded"}, "a/rank-0"),
    ],
)
def test_the_log_of_what_failed_comes_first(tmp_path: Path, states: dict[str, str], key: str) -> None:
    steps = {
        name: StepRecord(name, state, failed_process="rank-1" if state == "failed" else None)
        for name, state in states.items()
    }
    logs = [Log(name, f"rank-{rank}", tmp_path) for name in ("a", "b") for rank in (0, 1)]
    assert choose_log(logs, RunRecord(tmp_path, "running", steps=steps)).key == key


def test_jobs_are_compared_step_by_step() -> None:
    rows = by_row(
        [
            ("a", "", {"train.epochs": "3", "seed": "0"}),
            ("a", "train.", {"epochs": "3.0", "rows": "9"}),
            ("b", "", {"train.epochs": "5", "seed": "0"}),
            ("empty", "", {}),
        ]
    )
    assert rows["train.epochs"] == {"a": "3.0", "b": "5"}
    assert differing(rows, ["a", "b", "empty"]) == ["train.epochs", "train.rows"]
