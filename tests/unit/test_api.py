"""A command reads, plans, wires and resolves a spec once; a run goes on with the graph of the compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import worldsize
from worldsize import api
from worldsize.azureml import job as jobs
from worldsize.azureml.binding import Expression
from worldsize.azureml.files import Files
from worldsize.azureml.model import Field
from worldsize.running.model.options import RunOptions
from worldsize.running.prepare import preparation

PIPELINES = Path(__file__).parents[2] / "pipelines"
SPECS = sorted(PIPELINES.glob("*.yml"))
PLACES = {
    "span",
    "key_span",
    "node",
    "comment",
    "sources",
    "parts",
    "raw",
    "start",
    "end",
    "name_start",
    "keys",
}
ONCE = {
    "read": "worldsize.resolving.resolve.from_document",
    "validated": "worldsize.spec.violations.check_schema",
    "planned": "worldsize.planning.derive.derive",
    "wired": "worldsize.resolving.wiring.wire_by_name",
    "resolved": "worldsize.resolving.resolve.plan_spec",
}
VERBS: dict[str, Callable[[Path, Path], object]] = {
    "check": lambda spec, _: worldsize.check(spec),
    "plan": lambda spec, _: worldsize.plan(spec),
    "compile": worldsize.compile,
    "run": lambda spec, out: preparation.prepare(spec, out, RunOptions(processes=1)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_spec_is_read_planned_wired_and_resolved_once(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    for stage, target in ONCE.items():
        _count_calls(monkeypatch, target, stage, calls)
    _count_calls(monkeypatch, "worldsize.azureml.job.read_job", "parsed back", calls)
    VERBS[verb](PIPELINES / "digits_ddp.yml", tmp_path / "out")
    assert calls == dict.fromkeys(ONCE, 1)


def _count_calls(monkeypatch: pytest.MonkeyPatch, target: str, stage: str, calls: Counter[str]) -> None:
    module, _, name = target.rpartition(".")
    original = getattr(__import__(module, fromlist=[name]), name)

    def counted(*args: Any, **named: Any) -> Any:
        calls[stage] += 1
        return original(*args, **named)

    monkeypatch.setattr(target, counted)


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_the_graph_that_a_run_gets_is_the_one_in_the_written_files(spec: Path, tmp_path: Path) -> None:
    compiled = api.compile(spec, tmp_path / "out")
    written, problems = jobs.read_job(compiled.pipeline, Files())
    assert problems == []
    assert _plain(api.read_graph(compiled, Files())) == _plain(written)


def test_what_a_spec_wrote_itself_keeps_its_place_in_the_graph(tmp_path: Path) -> None:
    spec = PIPELINES / "own_script.yml"
    compiled = api.compile(spec, tmp_path / "out")
    for name, step in api.read_graph(compiled, Files()).steps.items():
        assert step.span is not None, name
        assert step.span.path == str(spec)
        if compiled.planned.spec.steps[name].command is not None:
            command = step.component.command if step.component is not None else None
            assert command is not None, name
            assert command.span is not None, name
            assert command.span.path == str(spec)


def _plain(value: Any) -> Any:
    """A graph without places; of an expression its name counts, wherever blanks stand in it."""
    if isinstance(value, Field):
        return _plain(value.value)
    if isinstance(value, Expression):
        return value.name
    if isinstance(value, Struct):
        names = [name for name in value.__struct_fields__ if name not in PLACES]
        fields = {name: _plain(getattr(value, name)) for name in names}
        return {"": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
