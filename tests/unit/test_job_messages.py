"""What is read from the logs of a job of a workspace: models, and processes other than planned."""

from __future__ import annotations

import pytest

from worldsize.remote.jobs import parse_fitted, parse_registration
from worldsize.running.model.results import Registration

FITTED = "planned for 8 processes (2 × 4), running 2 here with accumulation ×4, global batch 256 unchanged"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("registered digits-cnn version 3", Registration("digits-cnn", "3")),
        ("registered a name with blanks version 12", Registration("a name with blanks", "12")),
        (
            "nothing is registered: accuracy is 0.5, and the gate requires >= 0.97",
            Registration("digits", None, "accuracy is 0.5, and the gate requires >= 0.97"),
        ),
        ("I registered digits-cnn version 3", None),
        ("registered digits-cnn version three", None),
    ],
)
def test_the_model_of_a_step_is_in_its_log(line: str, expected: Registration | None) -> None:
    assert parse_registration(["loading", line, "loaded back models:/digits/3"], "digits") == expected


def test_processes_other_than_planned_are_in_the_log_of_the_job() -> None:
    lines = [f"[2026-07-01 10:00:00Z] train: {FITTED}", "[2026-07-01 10:00:01Z] train: started, run id a"]
    found = parse_fitted([*lines, "tune.1: planned for 1 process (1 × 1), running 4 here"])
    assert found == {
        "train": (2, FITTED),
        "tune.1": (4, "planned for 1 process (1 × 1), running 4 here"),
    }
    assert parse_fitted(["train: planned for many", "planned for 8 processes, running 2 here"]) == {}
