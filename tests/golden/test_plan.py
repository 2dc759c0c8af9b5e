"""What `worldsize plan` prints for whole specs, as a table and as JSON, word for word."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from worldsize.base import resources
from worldsize.cli import main
from worldsize.planning import plan_file
from worldsize.planning.model import Plan

CASES = sorted(path.parent for path in (Path(__file__).parent / "plan").glob("*/spec.yml"))
FAULTY = {"pinned_batch_does_not_factor", "fewer_rows_than_a_batch"}
SCHEMA = json.loads((resources.schemas() / "plan.schema.json").read_text(encoding="utf-8"))


def compare(golden: Path, text: str, update: bool) -> None:
    if update and text:
        golden.write_text(text, encoding="utf-8")
    elif update:
        golden.unlink(missing_ok=True)
    assert text == (golden.read_text(encoding="utf-8") if golden.exists() else "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_table(case: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case)
    result = CliRunner().invoke(main, ["plan", "spec.yml"])
    compare(case / "table.txt", result.stdout, update_golden)
    compare(case / "findings.txt", result.stderr, update_golden)
    assert result.exit_code == (1 if case.name in FAULTY else 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_json(case: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case)
    result = CliRunner().invoke(main, ["plan", "spec.yml", "--json"])
    compare(case / "plan.json", result.stdout, update_golden)
    if case.name in FAULTY:
        assert result.stdout == ""
        return
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_the_schema_is_a_schema_and_refuses_what_is_no_plan() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    good = {"format": "worldsize-plan/1", "name": "x", "steps": {}}
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.validate(good)
    for bad in ({**good, "format": "worldsize-plan/2"}, {**good, "steps": {"a": {}}}, {"name": "x"}):
        assert not validator.is_valid(bad)


def test_the_plan_beside_a_pipeline_obeys_the_schema() -> None:
    text = plan_file.dump(Plan("x", {}), {}, ["pipeline.yml"])
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(text))
