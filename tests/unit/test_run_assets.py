"""The map of assets: what references to a workspace, a registry or the web mean on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml import component
from worldsize.azureml.files import Files
from worldsize.base.span import Span
from worldsize.checking import settings
from worldsize.documents.yaml import load
from worldsize.running.model.assets import AssetEntry, AssetMap, parse_map_option, read_asset_map
from worldsize.running.model.errors import RunError
from worldsize.running.model.options import RunOptions
from worldsize.running.model.task import File, Text
from worldsize.running.prepare import preparation

PLACE = Span("worldsize.yml", 2, 3, 2, 9)
REGISTRY = "azureml://registries/azureml"
WORKSPACE = "/subscriptions/s/resourceGroups/r/providers/Microsoft.MachineLearningServices/workspaces/w"


def mapped(*references: str, options: tuple[str, ...] = ()) -> AssetMap:
    """A map that leads each reference to a path that tells which entry was chosen."""
    told = [AssetEntry(text, Path("file", str(number)), PLACE) for number, text in enumerate(references)]
    asked = [AssetEntry(text, Path("option", str(number)), PLACE) for number, text in enumerate(options)]
    return AssetMap(told, asked)


@pytest.mark.parametrize(
    ("text", "keys", "expected"),
    [
        (
            "wasbs://c@a.blob.core.windows.net/x y.csv",
            ["https://a.blob.core.windows.net/c/x%20y.csv"],
            "file/0",
        ),
        (
            "https://a.blob.core.windows.net/c/d/x.csv?sv=1",
            ["wasbs://c@a.blob.core.windows.net/d"],
            "file/0/x.csv",
        ),
        (
            "https://a.blob.core.windows.net/c/x%20y.csv",
            ["wasbs://c@a.blob.core.windows.net/"],
            "file/0/x y.csv",
        ),
        ("https://a.example.com/c/x%20y.csv", ["https://a.example.com/c/x y.csv"], "file/0"),
        ("https://a.example.com/c/x y.csv", ["https://a.example.com/c/x%20y.csv"], "file/0"),
        ("https://a.example.com/c/x%20y.csv", ["https://a.example.com/c"], "file/0/x y.csv"),
        ("https://a.example.com/c/x.csv", ["wasbs://c@a.example.com/x.csv"], None),
        ("azureml:cifar:1", ["azureml:cifar:1"], "file/0"),
        ("azureml:cifar@latest", ["azureml:cifar@latest"], "file/0"),
        ("azureml:cifar@latest", ["azureml:cifar:1"], None),
        ("azureml:cifar:2", ["azureml:cifar", "azureml:cifar:1"], "file/0"),
        ("azureml:cifar:1", ["azureml:cifar", "azureml:cifar:1"], "file/1"),
        ("azureml:cifar", ["azureml:cifar:1"], None),
        ("azureml:cifar10:1", ["azureml:cifar"], None),
        (f"azureml:{WORKSPACE}/components/prep/versions/3", ["azureml:prep:3"], "file/0"),
        (f"{WORKSPACE}/components/prep/labels/latest", ["azureml:prep@latest"], "file/0"),
        (f"{WORKSPACE}/components/prep", ["azureml:prep"], "file/0"),
        ("azureml://locations/west/workspaces/0-1/data/iris/versions/2", ["azureml:iris"], "file/0"),
        ("azureml://datastores/blob/paths/a/b.csv", ["azureml://datastores/blob"], "file/0/a/b.csv"),
        ("azureml://datastores/blob/paths/a/b.csv", ["azureml://datastores/blob/paths/"], "file/0/a/b.csv"),
        ("azureml://datastores/blob/paths/a/", ["azureml://datastores/blob/paths/a"], "file/0"),
        ("azureml://datastores/blob/paths/ab", ["azureml://datastores/blob/paths/a"], None),
        (
            "azureml://datastores/blob/paths/a/b/c",
            ["azureml://datastores/blob/paths/a/b", "azureml://datastores/blob/paths/a"],
            "file/0/c",
        ),
        (
            "azureml://subscriptions/s/resourcegroups/r/workspaces/w/datastores/blob/paths/a/b",
            ["azureml://datastores/blob/paths/a"],
            "file/0/b",
        ),
        (f"{REGISTRY}/components/prep/versions/1", [f"{REGISTRY}/components/prep/versions/1"], "file/0"),
        (f"{REGISTRY}/environments/sk/labels/latest", [f"{REGISTRY}/environments/sk"], "file/0"),
        (f"{REGISTRY}/components/prep/versions/1", [REGISTRY], "file/0/components/prep"),
        ("https://h.example/a/b%20c.csv?sv=1&sig=x", ["https://h.example/a"], "file/0/b c.csv"),
        ("https://h.example/a.csv?sv=1", ["https://h.example/a.csv"], "file/0"),
        ("https://h.example/a.csv?v=1", ["https://h.example/a.csv", "https://h.example/a.csv?v=1"], "file/1"),
        ("https://h.example/a", ["https://h.example"], "file/0/a"),
        ("wasbs://c@h.example/year=2018/x.parquet", ["wasbs://c@h.example"], "file/0/year=2018/x.parquet"),
        ("azureml://datastores/blob/paths/a/../../../etc", ["azureml://datastores/blob/paths/a"], None),
        ("./data", ["azureml:data"], None),
    ],
)
def test_what_a_reference_means(text: str, keys: list[str], expected: str | None) -> None:
    found = mapped(*keys).local(text)
    assert found == (None if expected is None else Path(expected))


def test_what_the_call_says_goes_before_what_the_project_says() -> None:
    chosen = mapped("azureml:cifar:1", options=("azureml:cifar",))
    assert chosen.local("azureml:cifar:1") == Path("option/0")


def test_an_entry_that_leads_nowhere_is_reported_at_its_place_once(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    found = AssetMap(
        [
            AssetEntry("azureml:a", tmp_path / "gone", PLACE),
            AssetEntry("azureml:b", tmp_path / "here", Span("worldsize.yml", 3, 1, 3, 2)),
            AssetEntry("azureml:unused", tmp_path / "gone", Span("worldsize.yml", 4, 1, 4, 2)),
        ]
    )
    assert [found.local(text) for text in ("azureml:a:1", "azureml:a:2", "azureml:b:1")] == [
        tmp_path / "gone",
        tmp_path / "gone",
        tmp_path / "here",
    ]
    (problem,) = found.problems
    assert problem.span == PLACE
    assert "`azureml:a:1`" in problem.message
    assert "does not exist" in problem.message


@pytest.mark.parametrize(
    ("text", "what", "line", "more"),
    [
        (
            "azureml:cifar@latest",
            "data",
            "azureml:cifar@latest: ./cifar",
            "--map azureml:cifar@latest=./cifar",
        ),
        (
            "azureml:prep:1",
            "component",
            "azureml:prep:1: ./component.yml",
            "--map azureml:prep:1=./component.yml",
        ),
        (
            f"{REGISTRY}/models/m/labels/latest",
            "model",
            f"{REGISTRY}/models/m/labels/latest: ./m",
            f"--map {REGISTRY}/models/m/labels/latest=./m",
        ),
        (
            "https://h.example/a b/iris.csv?x=1&y=2",
            "data",
            "https://h.example/a b/iris.csv?x=1&y=2: ./iris.csv",
            "curl -fLo ./iris.csv 'https://h.example/a b/iris.csv?x=1&y=2'",
        ),
    ],
)
def test_a_missing_entry_is_shown_as_it_must_be_written(text: str, what: str, line: str, more: str) -> None:
    help_ = AssetMap().missing(text, what)
    assert f"`{line}`" in help_
    assert more in help_
    assert pyyaml.safe_load(f"assets:\n  {line}\n")["assets"][text]


REFERENCES = st.one_of(
    st.from_regex(r"azureml:[\w-]{1,9}(:\w{1,4}|@\w{1,6})?", fullmatch=True),
    st.from_regex(r"azureml://datastores/\w{1,5}/paths/[\w/ #'=-]{1,20}", fullmatch=True),
    st.from_regex(r"https://\w{1,5}\.example/[\w/ #'&?=%-]{0,20}", fullmatch=True),
).map(str.strip)


@given(REFERENCES)
def test_what_help_says_to_write_is_read_back_as_this_reference(text: str) -> None:
    line = AssetMap().missing(text).partition("write `")[2].partition("` under `assets:`")[0]
    read = settings.read_settings(load("worldsize.yml", f"assets:\n  {line}\n"))
    assert not read.problems
    (asset,) = read.assets
    assert AssetMap([AssetEntry(asset.reference, Path("x"), asset.span)]).local(text) == Path("x")


def test_an_option_is_cut_where_its_path_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "year=1").mkdir()
    for text, reference, path in [
        ("azureml:a:1=./data/x=1", "azureml:a:1", "./data/x=1"),
        ("https://h.example/a?x=1&y=2=./iris.csv", "https://h.example/a?x=1&y=2", "./iris.csv"),
        ("wasbs://h.example/z=1=year=1", "wasbs://h.example/z=1", "year=1"),
        ("azureml:a=/data", "azureml:a", "/data"),
    ]:
        assert parse_map_option(text) == (reference, path)


@pytest.mark.parametrize("text", ["cifar=./data", "azureml:cifar", "azureml:cifar=", "", "="])
def test_an_option_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"`.*`"):
        parse_map_option(text)


def test_the_nearest_settings_and_the_call_make_the_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yml").touch()
    (tmp_path / "worldsize.yml").write_text("assets:\n  azureml:a: ./data\n  azureml:b:1: ./data\n")
    found = read_asset_map(Path("jobs/job.yml"), {"azureml:b": "./other"})
    assert found.local("azureml:a:1") == tmp_path / "data"
    assert found.local("azureml:b:1") == tmp_path / "other"
    told, asked = found.problems
    assert str(told.span) == "worldsize.yml:2:14"
    assert "`data`" in told.message
    assert str(RunError([told], found.sources)).startswith("worldsize.yml:2:14: error: `azureml:a:1` is")
    assert asked.span.path == "--map azureml:b=./other"


def test_a_call_that_maps_no_reference_is_told_so() -> None:
    (problem,) = read_asset_map(Path("job.yml"), {"cifar": "./data"}).problems
    assert problem.message == "`cifar` is not a reference to an asset or address"


def test_a_registered_component_is_read_where_it_lies_here(tmp_path: Path) -> None:
    (tmp_path / "prep.yml").write_text("type: command\ncommand: echo\ninputs: {rows: {type: integer}}\n")
    found = AssetMap([AssetEntry("azureml:prep", tmp_path / "prep.yml", PLACE)])
    reference = load("job.yml", "azureml:prep:7\n").root
    assert reference is not None
    read, text = component.resolve_component(reference, tmp_path, Files(elsewhere=found.local))
    assert read is not None
    assert read.path == tmp_path / "prep.yml"
    assert list(read.inputs) == ["rows"]
    assert text is not None
    assert text.value == "azureml:prep:7"


JOB = """\
type: pipeline
settings: {default_compute: azureml:cluster}
inputs:
  table: {type: uri_file, path: azureml:table:1}
  pictures: {type: uri_folder, path: azureml://datastores/blob/paths/pictures}
jobs:
  a:
    command: read ${{inputs.table}} ${{inputs.pictures}}
    environment: azureml:env:1
    inputs: {table: "${{parent.inputs.table}}", pictures: "${{parent.inputs.pictures}}"}
  b:
    command: read ${{inputs.table}}
    environment: azureml:env:1
    inputs: {table: "${{parent.inputs.table}}"}
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, None),
        ({"azureml:env": "rows.csv"}, None),  # what is named counts, and not what this run needs
        (
            {"azureml:tabel:1": "rows.csv"},
            (
                "--map azureml:tabel:1=rows.csv: error: the pipeline does not use `azureml:tabel:1`",
                "did you mean `azureml:table:1`?",
            ),
        ),
        ({"azureml:cluster": "rows.csv"}, ("the pipeline does not use `azureml:cluster`", "write one of")),
        (
            {"azureml:table": "data"},
            (
                "is mapped to `data`, a folder, but input `table` of step `a` is a `uri_file`",
                "map it to the file itself",
            ),
        ),
        (
            {"azureml://datastores/blob/paths/pictures": "rows.csv"},
            (
                "--map azureml://datastores/blob/paths/pictures=rows.csv: error: `azureml://",
                "mapped to `rows.csv`, a file, but input `pictures` of step `a` is a `uri_folder`",
                "map it to a folder, or declare the input as `type: uri_file`",
            ),
        ),
    ],
)
def test_what_is_mapped_is_named_and_of_the_kind_that_is_wanted(
    given: dict[str, str], said: tuple[str, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "pictures").mkdir(parents=True)
    (tmp_path / "rows.csv").touch()
    (tmp_path / "job.yml").write_text(JOB)
    every = {"azureml:table": "rows.csv", "azureml://datastores/blob": "data"} | given
    options = RunOptions(assets=every, environment="current")
    if said is None:
        preparation.prepare(Path("job.yml"), tmp_path / "build", options)
        return
    with pytest.raises(RunError) as caught:
        preparation.prepare(Path("job.yml"), tmp_path / "build", options)
    assert len(caught.value.problems) == 1
    assert all(part in str(caught.value) for part in said)


ADDRESS = "https://example.org/demo/rows.csv"
DATA = """\
type: pipeline
settings: {default_compute: azureml:cluster}
jobs:
  read:
    type: command
    component:
      type: command
      command: cat ${{inputs.rows}}
      environment: azureml:env:1
      inputs: {rows: {type: %s}}
    inputs:
      rows: {%spath: "https://example.org/demo/rows.csv"}
"""


@pytest.mark.parametrize(
    ("said_by_job", "port", "mapped", "refused"),
    [
        ("type: uri_file, ", "uri_folder", "rows.csv", False),
        ("type: uri_file, ", "uri_folder", "data", True),
        ("type: uri_folder, ", "uri_file", "data", False),
        ("type: uri_folder, ", "uri_folder", "rows.csv", True),
        ("", "uri_folder", "rows.csv", False),
        ("", "uri_folder", "data", False),
        ("", "uri_file", "data", True),
        ("type: mltable, ", "uri_folder", "rows.csv", False),
    ],
)
def test_the_type_that_the_job_gives_its_data_counts(
    said_by_job: str,
    port: str,
    mapped: str,
    *,
    refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "rows.csv").touch()
    Path("job.yml").write_text(DATA % (port, said_by_job))
    options = RunOptions(assets={ADDRESS: mapped}, environment="current")
    if not refused:
        preparation.prepare(Path("job.yml"), tmp_path / "build", options)
        return
    with pytest.raises(RunError) as caught:
        preparation.prepare(Path("job.yml"), tmp_path / "build", options)
    assert len(caught.value.problems) == 1
    assert "input `rows` of step `read` is a `uri_" in str(caught.value)


DIRECT = """\
type: pipeline
settings: {default_compute: azureml:cluster}
inputs:
  rows: {%spath: "https://example.org/demo/rows.csv"}
jobs:
  read:
    type: command
    component:
      type: command
      command: cat ${{inputs.rows}}
      environment: azureml:env:1
      inputs: {rows: {type: uri_file%s}}
    inputs:
      rows: %s
"""


@pytest.mark.parametrize(
    ("pipeline", "port", "node", "passed"),
    [
        ("mode: direct, ", "", "${{parent.inputs.rows}}", True),
        ("", ", mode: direct", "${{parent.inputs.rows}}", True),
        ("", "", "{path: '${{parent.inputs.rows}}', mode: direct}", True),
        ("", "", "{type: uri_file, mode: direct, path: 'https://example.org/demo/rows.csv'}", True),
        ("mode: direct, ", "", "{path: '${{parent.inputs.rows}}', mode: download}", False),
        ("", ", mode: direct", "{type: uri_file, mode: download, path: 'https://example.org/x'}", False),
        ("", "", "${{parent.inputs.rows}}", False),
    ],
)
def test_an_address_in_direct_mode_is_passed_as_it_is(
    pipeline: str, port: str, node: str, *, passed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yml").write_text(DIRECT % (pipeline, port, node))
    options = RunOptions(environment="current")
    if not passed:
        with pytest.raises(RunError, match="a web address that this machine does not have"):
            preparation.prepare(Path("job.yml"), tmp_path / "build", options)
        return
    prepared = preparation.prepare(Path("job.yml"), tmp_path / "build", options)
    assert prepared.tasks["read"].inputs == {"rows": Text("https://example.org/demo/rows.csv")}
    (tmp_path / "rows.csv").touch()
    mapped = RunOptions(environment="current", assets={"https://example.org/demo/": "."})
    prepared = preparation.prepare(Path("job.yml"), tmp_path / "build2", mapped)
    assert isinstance(prepared.tasks["read"].inputs["rows"], File)


def test_yaml_files_of_the_project_declare_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "data" / "rows").mkdir(parents=True)
    data = tmp_path / "data" / "rows.yml"
    data.write_text("name: rows\nversion: 2\ntype: uri_folder\npath: ./rows\n")
    environment = tmp_path / "environment.yml"
    environment.write_text("name: sklearn\nversion: 1\nimage: python:3.11\nconda_file: conda.yml\n")
    assets = read_asset_map(tmp_path / "pipeline.yml")
    assert assets.local("azureml:rows@latest") == assets.local("azureml:rows:2") == tmp_path / "data" / "rows"
    assert assets.local("azureml:sklearn:1") == environment
    assert assets.notices == [
        "`azureml:rows@latest` is `data/rows`, as `data/rows.yml` declares",
        "`azureml:rows:2` is `data/rows`, as `data/rows.yml` declares",
        "`azureml:sklearn:1` is `environment.yml`",
    ]
    unknown = ("azureml:rows:1", "azureml:rows", "azureml:other:1", "azureml://registries/azureml/data/rows")
    assert not any(map(assets.local, unknown))
    (tmp_path / "twin.yml").write_text(data.read_text())
    assert read_asset_map(tmp_path / "pipeline.yml").local("azureml:rows:2") is None
    (tmp_path / "worldsize.yml").write_text("assets: {azureml:rows: ./data}\n")
    assert read_asset_map(tmp_path / "pipeline.yml").local("azureml:rows:2") == tmp_path / "data"
