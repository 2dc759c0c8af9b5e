"""An `MLTable` and a saved data set: what `check` says of one is what `shard_data` does with it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from described_data import FAULTY, PLAIN, RIGHT
from step_options import make_options

import worldsize
from worldsize.data import counts
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from wsshards import manifest as contents
from wsshards import terms
from wsshards.errors import UserError

SOURCE = Path(__file__).parents[2] / "components/shard_data/src"
SPEC = """\
name: described
compute:
  cpu: {{target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}}
steps:
  shard:
    uses: shard_data
    with: {}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data and the spec of each case."""
    folder = tmp_path_factory.mktemp("cases")
    for name, (files, inputs, *_) in {**RIGHT, **FAULTY}.items():
        for file, content in files.items():
            path = folder / name / "data" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        given = {"data": "./data", "shard_count": 1, **inputs}
        given = {key: value for key, value in given.items() if value is not None}
        (folder / name / "spec.yml").write_text(SPEC.format(json.dumps(given)))
    return folder


@pytest.fixture(scope="module")
def said(root: Path) -> dict[str, list[Diagnostic]]:
    """What one check says of each case."""
    found: dict[str, list[Diagnostic]] = {name: [] for name in {**RIGHT, **FAULTY}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for each in worldsize.check(".").diagnostics:
            found[Path(each.span.path).parent.name].append(each)
    return found


@pytest.fixture(scope="module")
def run_step() -> Iterator[Callable[..., str]]:
    """Runs the step's own code, and returns what it says where it refuses the data."""
    pytest.importorskip("pyarrow")
    before = set(sys.modules)
    sys.path.insert(0, str(SOURCE))
    shard = importlib.import_module("shard")

    def run(folder: Path, inputs: dict[str, Any]) -> str:
        options = {"source": ".", "label": "label", "features": "", "format": "auto", "shard_count": 1}
        options |= {"task": "auto", "missing": "refuse", "column_types": ""}
        numbers = {"sequence_length": 16, "validation_fraction": 0.2, "seed": 0, "memory_limit_mib": 64}
        places = {"data": str(folder / "data"), "shards": str(folder / "out")}
        given = {**places, **numbers, **options, **inputs}
        try:
            shard.shard(
                make_options(SOURCE.parent / "component.yml", **given | {"data": given["data"] or ""})
            )
        except UserError as error:
            return error.message
        return ""

    yield run
    sys.path.remove(str(SOURCE))
    for name in set(sys.modules) - before:
        if str(SOURCE) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("name", RIGHT)
def test_described_rows_are_planned_and_written(
    name: str, root: Path, said: dict[str, list[Diagnostic]], run_step: Callable[..., str]
) -> None:
    _, inputs, expected = RIGHT[name]
    assert ([each.message for each in said[name]], run_step(root / name, inputs)) == ([], "")
    manifest = contents.read_manifest(root / name / "out")
    assert [manifest.split(part).rows for part in terms.SPLITS] == expected
    defaults = {"source": ".", "format": "auto", "label": "label", "sequence_length": 16}
    counted = counts.count_split(root / name / "data", {"validation_fraction": 0.2, **defaults, **inputs})
    assert counted is not None
    assert (counted.rows, counted.task) == (expected[0], manifest.task)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_said_before_and_by_the_step(
    name: str, root: Path, said: dict[str, list[Diagnostic]], run_step: Callable[..., str]
) -> None:
    _, inputs, code, message = FAULTY[name]
    refused = run_step(root / name, inputs)
    assert [each.code for each in said[name]] == [code], said[name]
    assert message in said[name][0].message
    assert message.replace("of `data` have", "of `.` have") in refused
    assert not (root / name / "out" / "manifest.json").exists()


def test_a_misspelt_transformation_is_shown_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.csv").write_text(PLAIN)
    steps = "transformations:\n  - read_delimited: {}\n  - keep_colums: [x]\n"
    (tmp_path / "t" / "MLTable").write_text(f"paths:\n  - file: ./a.csv\n{steps}")
    data = {"name": "t", "version": "1", "type": "mltable", "path": "./t"}
    (tmp_path / "data.yml").write_text(json.dumps(data))
    monkeypatch.chdir(tmp_path)
    (found,) = worldsize.check("data.yml").diagnostics
    assert (found.code, found.message) == (
        "WS539",
        "`MLTable` has the unknown transformation `keep_colums`",
    )
    (place,) = found.related
    assert (Path(place.span.path).name, place.span.line, place.span.column) == ("MLTable", 5, 5)
