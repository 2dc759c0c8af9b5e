"""Nothing that can stand in a file makes the checker fail, hang, or point outside the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import worldsize
from worldsize.documents.diagnostics import text

ROOT = Path(__file__).parents[2]
NATIVE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
inputs: {data: {type: uri_folder, path: ./data}}
settings: {default_compute: azureml:gpu-cluster}
jobs:
  first:
    type: command
    command: python a.py ${{inputs.data}} --out ${{outputs.model}}
    environment: azureml:e:1
    inputs: {data: "${{parent.inputs.data}}"}
    outputs: {model: {type: mlflow_model}}
    resources: {instance_count: 2}
    distribution: {type: pytorch, process_count_per_instance: 4}
  second:
    type: command
    component: ./component.yml
    inputs: {model: "${{parent.jobs.first.outputs.model}}"}
"""
SEEDS = [
    NATIVE,
    *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "pipelines").glob("*.yml"))),
    *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "components").glob("*/component.yml"))),
]
PIECES = [
    "null", "yes", "-1", "0", "1e-3", "1.5", ".nan", "2024-13-01", "[]", "{}", "[1, 2]", "{a: 1}", "''",
    "x: y", "&a", "*a", "<<: *a", "!!int", "- ", "? ", "|\n  x", "${{", "${{plan.x}}", "$[[", "]]",
    "${{parent.jobs.first.outputs.model}}", "# worldsize: ignore[WS203]", "\t", "\u2028", "漢", "\x00",
    "\ufeff", "azureml:", "steps:", "jobs:", "command", "uses: train_ddp", "99999999999999999999", "1:30",
    "../..", "~",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid file with words and lines replaced, dropped, doubled or swapped."""
    lines = draw(st.sampled_from(SEEDS)).splitlines()
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(["value", "insert", "drop", "double", "cut", "indent"]))
        piece = draw(st.sampled_from(PIECES))
        line = lines[at]
        if change == "value" and ":" in line:
            lines[at] = line[: line.index(":") + 1] + " " + piece
        elif change == "insert":
            place = draw(st.integers(0, len(line)))
            lines[at] = line[:place] + piece + line[place:]
        elif change == "drop" and len(lines) > 1:
            del lines[at]
        elif change == "double":
            lines.insert(draw(st.integers(0, len(lines))), line)
        elif change == "cut":
            lines[at] = line[: draw(st.integers(0, len(line)))]
        elif change == "indent":
            lines[at] = "  " + line
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "component.yml").write_text(
        "type: command\nname: c\ncommand: echo\nenvironment: azureml:e:1\n"
    )
    return tmp_path


def judge(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    report = worldsize.check(path.name)
    assert report.exit_code in (0, 1), [
        diagnostic.message for diagnostic in report.diagnostics if diagnostic.code == "WS000"
    ]
    for diagnostic in report.diagnostics:
        assert not diagnostic.message[0].isupper(), diagnostic.message
        assert len(diagnostic.message) <= 200, diagnostic.message
        source = report.sources.get(diagnostic.span.path)
        if source is not None and source.text:
            assert diagnostic.span.line <= source.text.count("\n") + source.text.count("\r") + 1
        text.render_diagnostic(diagnostic, report.sources)


fuzzed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fuzzed
@given(content=mutated())
def test_mutated_files_are_judged_without_a_crash(folder: Path, content: str) -> None:
    judge(folder / "fuzz.yml", content.encode("utf-8", "surrogatepass"))


@fuzzed
@given(content=st.binary(max_size=300))
def test_bytes_are_judged_without_a_crash(folder: Path, content: bytes) -> None:
    judge(folder / "fuzz.yml", content)
