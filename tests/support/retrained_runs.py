"""Runs of a retrained pipeline as looks leave them, without running anything."""

from __future__ import annotations

import json
from pathlib import Path

from run_folders import FolderOfRun

from worldsize.retraining.facts import Fingerprint
from worldsize.retraining.local import AttemptRecord, Place, Start, add_start

NOW = 1_772_420_400.0  # 2026-03-02T03:00Z
WEEK = 7 * 86400.0
EVIL = "<script>alert(1)</script>"


def add_job(home: Path, name: str, action: str, *, state: str = "succeeded", model: str = "sales") -> Path:
    """The folder of a run, with the documents of its last steps."""
    run = FolderOfRun(home, name)
    run.step("promote", state=state)
    promotion = {"action": action, "reason": f"because {EVIL}", "name": model, "version": "7"}
    comparison = {
        "metric": "rmse", "champion": {"version": "1", "metric": 1.25}, "challenger": {"metric": 1.125},
        "difference": {"value": 0.125, "low": 0.0625, "high": 0.1875, "rows": 200},
    }  # fmt: skip
    feed = {"drift": {"a": {"psi": 0.1}, "b": {"psi": 0.25}, "c": {"psi": "much"}, "d": 1}}
    documents = {"promotion/promotion": promotion, "comparison/comparison": comparison, "shards/feed": feed}
    for place, document in documents.items():
        path = run.root / "steps" / "promote" / "outputs" / f"{place}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(document))
    return run.finish(state)


def add_attempt(
    place: Place, week: int, action: str, *, state: str = "succeeded", model: str = "sales"
) -> Path:
    """The folder of the run that a look started in a week, and its record."""
    root = add_job(place.home, f"20260102-030405-00{week}", action, state=state, model=model)
    (root / "report.html").write_text("")
    fingerprint = Fingerprint("code", {"sales": str(week)})
    start = Start(root.name, NOW + week * WEEK, f"there is new data in week {week}")
    add_start(place.attempt(fingerprint), AttemptRecord(fingerprint), start)
    return root
