"""What a look in a workspace reads of jobs, and the job of a schedule that looks."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from retrained_regression import SPEC

from worldsize import api
from worldsize.api.look_files import ARCHIVE, RETRAINED
from worldsize.documents import yaml
from worldsize.retraining.facts import Fingerprint
from worldsize.retraining.starts import Start, group_starts, list_starts, parse_status, write_tags

FEED = "azureml://datastores/workspaceblobstore/paths/feed/"
SCHEDULED = SPEC.replace("./feed", FEED) + 'schedule: {cron: "0 3 * * 1", inputs: {epochs: 3}}\n'
SCHEDULED = SCHEDULED.replace("inputs:\n", "inputs:\n  epochs: 8\n", 1).replace(
    "epochs: 8}", 'epochs: "${{parent.inputs.epochs}}"}'
)


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    (tmp_path / "spec.yml").write_text(SCHEDULED)
    return api.compile(tmp_path / "spec.yml", tmp_path / "out").folder


def read(path: Path) -> dict[str, Any]:
    root = yaml.load(path).root
    assert root is not None
    document: dict[str, Any] = yaml.to_python(root)
    return document


def test_the_schedule_starts_a_look_and_nothing_else(compiled: Path) -> None:
    job = read(compiled / "schedule.yml")["create_job"]
    assert job == {
        "type": "pipeline",
        "job": "./look.yml",
        "inputs": {"now": "${{creation_context.trigger_time}}"},
    }
    look = read(compiled / "look.yml")
    assert list(look["jobs"]) == ["look"]
    assert look["inputs"]["data_sales"] == {"type": "uri_folder", "path": FEED, "mode": "ro_mount"}
    assert look["jobs"]["look"]["compute"] == "azureml:cpu-cluster"
    assert read(compiled / "compute" / "cpu-cluster.yml")["identity"] == {"type": "system_assigned"}
    component = read(compiled / "look" / "component.yml")
    assert component["command"].endswith("--data 'sales=${{inputs.data_sales}}'")
    assert "\n" not in component["command"]
    assert (compiled / "look" / "src" / "look.py").is_file()
    retrained = json.loads((compiled / RETRAINED).read_text())
    assert (retrained["trainers"], retrained["verdict"]) == (["train"], "promote")
    assert (retrained["resumed"], retrained["inputs"]) == (["train"], {"epochs": 3})


def test_the_pipeline_is_that_of_a_spec_without_a_schedule(compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.yml").write_text(SCHEDULED[: SCHEDULED.index("schedule:")])
    plain = api.compile(tmp_path / "plain.yml", tmp_path / "plain")
    assert not [name for name in plain.files if name.startswith(("look", "schedule"))]
    lines = (compiled / "pipeline.yml").read_text().splitlines()[1:]
    assert lines == plain.pipeline.read_text().splitlines()[1:]


def test_the_archive_is_the_same_each_time_and_runs_alone(compiled: Path, tmp_path: Path) -> None:
    content = (compiled / ARCHIVE).read_bytes()
    assert content == (api.compile(tmp_path / "spec.yml", tmp_path / "again").folder / ARCHIVE).read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path / "unpacked")
    code = "import sys; sys.path.insert(0, 'unpacked'); import worldsize.retraining.workspace as w; print(w.__file__)"
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "unpacked" in said.stdout


class Listed:
    """The list of a workspace's jobs."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = documents

    def list(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        assert (path, parameters["listViewType"]) == ("/jobs", "All")
        return list(self.documents)


def document(name: str, second: int, tags: dict[str, str]) -> dict[str, Any]:
    created = f"2026-03-02T03:00:{second:02}.1234567Z"
    return {
        "name": name,
        "properties": {"status": "Failed", "tags": tags},
        "systemData": {"createdAt": created},
    }


def test_attempts_are_read_back_from_the_tags_of_jobs() -> None:
    fingerprint = Fingerprint("c0de", {"sales": "da7a"})
    start = Start("sales-1", fingerprint, 1772420400.0, {"sales": 12})
    tags = write_tags(start, "sales", "there is new data" * 40, "look-1")
    assert max(map(len, tags.values())) == 256
    listed = Listed(
        document("sales-2", 9, tags),
        document("sales-1", 1, tags),
        document("x", 2, {**tags, "worldsize.retrain": "x"}),
    )
    starts = list_starts(listed, "sales")  # type: ignore[arg-type]
    assert [(read.name, read.fingerprint, read.firing) for read in starts] == [
        ("sales-1", fingerprint, 1772420400.0),
        ("sales-2", fingerprint, 1772420400.0),
    ]
    assert [len(group) for group in group_starts(starts)] == [2]
    assert starts[0].rows == {"sales": 12}


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Execution failed. User process 'python' exited with status code 75. Please check", 75),
        ("rank 0 ended with exit status 3", 3),
        ("User process 'bash' exited with status code 137.", -9),
        ("rank 1 was killed by SIGKILL", -9),
        ("the node is gone", None),
    ],
)
def test_the_status_of_a_process_is_read_from_an_error(text: str, status: int | None) -> None:
    assert parse_status(text) == status
