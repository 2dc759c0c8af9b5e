from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import worldsize
from worldsize.planning.model import Derivation
from worldsize.planning.plan_text import list_rows
from worldsize.planning.resilience import DEDICATED_SECONDS, LOW_PRIORITY_SECONDS

WANTED = "resilience: {mean_time_between_preemptions: 14400, checkpoint_seconds: 0.5}"


def rows(plan: Any) -> dict[str, Any]:
    return {row.quantity: row for row in plan.steps["train"].derivations}


def test_the_interval_and_what_is_lost(planner: Any) -> None:
    plan, problems = planner.planned(planner.write(more=WANTED))
    assert problems == []
    found = rows(plan)
    assert found["checkpoint_interval_seconds"].value == pytest.approx(120, abs=0.5)
    assert found["checkpoint_interval_seconds"].formula == "√(2 × 0.5 s × 14400 s) and its corrections"
    assert found["expected_loss"].value == pytest.approx(0.0083, abs=1e-4)
    assert found["checkpoint_seconds"].source == "given as train.resilience.checkpoint_seconds"
    inputs = plan.steps["train"].inputs
    assert (inputs["checkpoint_interval"], inputs["mean_time_between_preemptions"]) == ("auto", 14400)


@pytest.mark.parametrize(
    ("profile", "seconds", "source"),
    [
        (", tier: low_priority", LOW_PRIORITY_SECONDS / 2, "assumed of tier low_priority"),
        ("", DEDICATED_SECONDS / 8, "Llama 3, 2024, for dedicated instances"),
    ],
)
def test_what_is_not_given_is_assumed_from_the_tier(
    planner: Any, profile: str, seconds: float, source: str
) -> None:
    text = planner.write(more="instance_count: 2\n    resilience: {checkpoint_seconds: 1}", profile=profile)
    row = rows(planner.planned(text)[0])["mean_time_between_preemptions"]
    assert row.value == round(seconds)
    assert row.source == source


def test_a_step_that_says_nothing_has_no_interval(planner: Any) -> None:
    plan, _ = planner.planned(planner.write())
    assert "checkpoint_interval" not in plan.steps["train"].inputs
    assert "expected_loss" not in rows(plan)


def test_restarts_are_planned(planner: Any) -> None:
    plan, problems = planner.planned(planner.write(more="resilience: {max_restarts: 3}"))
    assert problems == []
    inputs = plan.steps["train"].inputs
    assert inputs["max_restarts"] == 3
    assert "checkpoint_interval" not in inputs  # which nobody asked for
    assert rows(plan)["max_restarts"].source == "given as train.resilience.max_restarts"


def test_a_duration_is_shown_with_its_unit(planner: Any) -> None:
    table = str(planner.planned(planner.write(more=WANTED))[0])
    assert re.search(r"mean time between preemptions +14400 s +given", table)
    assert re.search(r"checkpoint interval seconds +1[12]\d\S* = ", table)


def test_early_stopping_is_said(written: Callable[[Path], Path]) -> None:
    cases = written(Path(__file__).parents[1] / "rules" / "WS724-early-stopping-without-validation.md")
    found = rows(worldsize.plan(cases / "good.yml"))["early_stopping_patience"]
    assert (found.value, found.source) == (3, "given as train.with")
    assert found.formula == "stops after 3 validations in a row without a better validation_loss"


def test_a_row_has_the_label_and_the_unit_of_its_quantity() -> None:
    rows = [
        Derivation("kappa", 4.0, "64 / 16", "given"),
        Derivation("mean_time_between_preemptions", 60, "", ""),
    ]
    assert list(list_rows(rows)) == [
        ("κ", "4", "= 64 / 16", "given"),
        ("mean time between preemptions", "60 s", "", ""),
    ]
