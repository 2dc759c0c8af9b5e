"""What the page shows of a pipeline that is retrained: jobs by their tags, and looks in the home."""

from __future__ import annotations

from typing import Any

from retrained_runs import EVIL, NOW, WEEK, add_attempt, add_job

from worldsize.retraining.local import Place
from worldsize.retraining.looks import LookRecord, add_look
from worldsize.running.show.firings import draw_firings
from worldsize.serving.jobs.records import JobRecord, insert
from worldsize.serving.page.queries.retraining import find_retrained
from worldsize.serving.workspace import Workspace


def insert_job(workspace: Workspace, name: str, status: str, day: int, **more: Any) -> None:
    tags = {
        "worldsize.retrain": "churn",
        "worldsize.retrain.reason": EVIL,
        "worldsize.retrain.rows.feed": "50",
    }
    job = JobRecord(
        name=name,
        type="Pipeline",
        display_name=name,
        experiment="Default",
        status=status,
        properties={"tags": tags},
        root=name,
        created=f"2026-03-{day:02}T03:00:00.000000Z",
        **more,
    )
    insert(workspace.database, job)


def test_jobs_of_looks_are_the_firings_of_their_pipeline(workspace: Workspace) -> None:
    insert_job(workspace, "churn-1", "Completed", 1)
    add_job(workspace.home.root, "churn-1", "promote", model="churn")
    insert_job(workspace, "churn-2", "Failed", 8, error_message="step `train` failed")
    insert_job(workspace, "churn-3", "Running", 15)
    (retrained,) = find_retrained(workspace, "churn")
    assert [(firing.action, firing.run) for firing in retrained.firings] == [
        ("promote", "churn-1"), ("failed", "churn-2"), ("running", "churn-3"),
    ]  # fmt: skip
    first, second, _ = retrained.firings
    assert (first.old, first.new, first.rows, first.why) == (1.25, 1.125, 50, EVIL)
    assert second.reason == "step `train` failed"
    assert retrained.links["churn-2"] == "/jobs/churn-2"
    assert EVIL not in draw_firings(retrained.firings)
    assert not [*find_retrained(workspace, "sales")]


def test_looks_of_the_home_are_shown(workspace: Workspace) -> None:
    place = Place(workspace.home.root, "sales")
    add_attempt(place, 1, "keep", model="prices")
    add_look(place.root, LookRecord(NOW + 2 * WEEK, "none", "nothing is new"))
    (retrained,) = find_retrained(workspace, "prices")
    assert [firing.action for firing in retrained.firings] == ["keep", "none"]
    (place.root / "looks.jsonl").write_bytes(b"\x00" * 100)
    assert [*find_retrained(workspace, "prices")]
