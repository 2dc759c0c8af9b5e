"""Findings on pipelines in Python point into the Python file: at a value, a call, or the function."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.checking.python_places import PythonFile, point_into_python
from worldsize.cli.main import main
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.scripts.module import parse_module

PYTHON = '''\
from azure.ai.ml import command, dsl

fit = command(command="python é.py", environment="azureml:env:1", instance_count=3)


def helper():
    train = other(epochs=99)


@dsl.pipeline(compute="cpu-cluster")
def digits(epochs=3):
    """Ähnlich."""
    shard = shards.load(source="ä", rows=5)
    train = fit(
        shards=shard.outputs.shards, epochs=epochs,
    )
    train.compute = "gpu-cluster"
    train.resources.instance_count = 2
    train.set_limits(timeout=60)
    evaluate(model=train.outputs.model)
    evaluate(model=train.outputs.best)


def planned():
    worldsize.plan(digits(), instance_types={"gpu": SIZE}, scale={"train": {"reference": {"batch_size": 7}}})
'''
PIPELINE = """\
type: pipeline
jobs:
  train:
    component: {command: python train.py}
    inputs:
      epochs: 3
    limits: {timeout: 60}
  evaluate_1: {type: command}
  made_elsewhere: {type: command}
"""


def text_at(span: Span, text: str = PYTHON) -> str:
    source = Source("", text)
    return text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]


MODULE = parse_module(Source("p.py", PYTHON))
assert MODULE is not None
FILE = PythonFile(MODULE, "digits")


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["train", "inputs", "epochs"], "epochs"),
        (["train", "with", "epochs"], "epochs"),
        (["train", "compute"], '"gpu-cluster"'),
        (["train", "resources", "instance_count"], "2"),
        (["train", "limits", "timeout"], "60"),
        (["train", "component", "command"], '"python é.py"'),
        (["train", "component", "environment"], '"azureml:env:1"'),
        (["shard", "inputs", "rows"], "5"),
        (["shard", "inputs", "source"], '"ä"'),
        (["train", "scale", "reference", "batch_size"], "7"),
        (["train", "scale", "rule"], '{"reference": {"batch_size": 7}}'),
        (["compute", "gpu", "instance_type"], "SIZE"),
        (["evaluate_1", "inputs", "model"], "train.outputs.model"),
    ],
)
def test_values_are_found_where_a_step_gets_them(keys: list[str], value: str) -> None:
    span = FILE.find_value(keys)
    assert span is not None
    assert text_at(span) == value


@pytest.mark.parametrize(
    "keys", [[], ["train"], ["train", "outputs", "model"], ["none", "inputs", "epochs"], ["compute", "cpu"]]
)
def test_what_is_written_nowhere_is_not_found(keys: list[str]) -> None:
    assert FILE.find_value(keys) is None


@pytest.mark.parametrize(
    ("step", "line", "text"),
    [("train", 14, "fit"), ("shard", 13, "shards.load"), ("evaluate_1", 20, "evaluate")],
)
def test_the_call_of_a_step(step: str, line: int, text: str) -> None:
    span = FILE.find_call(step)
    assert span is not None
    assert (text_at(span), span.line) == (text, line)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(PYTHON, encoding="utf-8")
    folder = Path(".worldsize", "pipelines", "p-digits")
    folder.mkdir(parents=True)
    (folder / "pipeline.yml").write_text(PIPELINE, encoding="utf-8")
    (folder / "python.txt").write_text("p.py:digits\n", encoding="utf-8")
    return folder / "pipeline.yml"


def find(path: Path, text: str) -> tuple[str, str, list[str]]:
    """Where a finding on the text is moved to, with its message and what it relates to."""
    source = Source(str(path), PIPELINE)
    start = PIPELINE.index(text)
    found = Diagnostic("WS1", "a-rule", "error", "it is wrong", source.span(start, start + len(text)))
    (moved,), sources = point_into_python([found], {str(path): source})
    assert moved.span.path == "p.py"
    assert sources["p.py"].text == PYTHON
    return text_at(moved.span), moved.message, [each.message for each in moved.related]


def test_a_finding_points_at_the_value(written: Path) -> None:
    assert find(written, "3\n    limits") == ("epochs", "it is wrong", [])


def test_a_finding_without_a_value_points_at_the_call(written: Path) -> None:
    assert find(written, "component:") == ("fit", "it is wrong", ["the step as it was written for the check"])
    assert find(written, "evaluate_1")[0] == "evaluate"


def test_a_finding_on_a_step_from_elsewhere_points_at_the_function_and_names_the_step(written: Path) -> None:
    assert find(written, "made_elsewhere")[:2] == ("digits", "step `made_elsewhere`: it is wrong")
    assert find(written, "type: pipeline")[:2] == ("digits", "it is wrong")


@pytest.mark.parametrize("text", [None, "def (", "\0", "\ud800"])
def test_a_file_that_cannot_be_read_leaves_findings_where_they_are(written: Path, text: str | None) -> None:
    python = Path("p.py")
    python.unlink()
    if text is not None:
        python.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = Diagnostic("WS1", "a-rule", "error", "it is wrong", Span(str(written), 3, 3, 3, 8))
    assert point_into_python([found], {})[0] == [found]


def test_check_shows_the_place_in_python(written: Path) -> None:
    written.write_text(PIPELINE.replace("epochs: 3", "epochs: 3\n      epochs: 4"), encoding="utf-8")
    done = CliRunner().invoke(main, ["check", str(written), "--format", "json"])
    found = {each["code"]: each for each in json.loads(done.stdout)["diagnostics"]}
    assert {each["path"] for each in found.values()} == {"p.py"}
    assert (found["WS002"]["line"], found["WS002"]["column"]) == (15, 45)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("epochs=epochs,  # worldsize: ignore[a-rule] why", False),
        ("# worldsize: ignore[WS720] why\n        epochs=epochs,", False),
        ("epochs=epochs,  # worldsize: ignore[WS203] why", True),
        ('note="# worldsize: ignore[WS720] why", epochs=epochs,', True),
    ],
)
def test_comments_of_the_python_file_suppress(written: Path, line: str, kept: bool) -> None:
    line = line.replace("a-rule", "multi-node-without-timeout")
    text = PYTHON.replace(
        "shards=shard.outputs.shards, epochs=epochs,", f"shards=shard.outputs.shards,\n        {line}"
    )
    Path("p.py").write_text(text, encoding="utf-8")
    source = Source(str(written), PIPELINE)
    start = PIPELINE.index("3\n    limits")
    span = source.span(start, start + 1)
    warning = Diagnostic("WS720", "multi-node-without-timeout", "warning", "it is unwise", span)
    error = Diagnostic("WS720", "multi-node-without-timeout", "error", "it is wrong", span)
    sources = {str(written): source}
    assert len(point_into_python([warning], sources)[0]) == kept
    assert len(point_into_python([error], sources)[0]) == 1  # it stops a command
    assert len(point_into_python([error], sources, suppress_errors=True)[0]) == kept
