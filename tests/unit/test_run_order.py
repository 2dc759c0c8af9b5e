"""Runs are listed in the order in which they started, whatever their ids are."""

from __future__ import annotations

from pathlib import Path

from worldsize.running.record.history import find_run, list_runs


def write_run(home: Path, name: str, started: str | None) -> None:
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    if started is not None:
        (folder / "events.jsonl").write_text(f'{{"time": "{started}", "event": "run_started"}}\n')


def test_a_job_of_the_local_workspace_has_its_place_by_its_start(tmp_path: Path) -> None:
    write_run(tmp_path, "20261124-050648-666", None)
    write_run(tmp_path, "icy_cheese_hjnjb81cw1", "2026-11-24T05:08:56.000+00:00")
    write_run(tmp_path, "20261124-050944-783", "2026-11-24T05:09:45.000+00:00")
    assert [path.name for path in list_runs(tmp_path)] == [
        "20261124-050648-666",
        "icy_cheese_hjnjb81cw1",
        "20261124-050944-783",
    ]
    assert find_run(tmp_path, "last").name == "20261124-050944-783"


def test_a_job_that_started_last_is_the_last_run(tmp_path: Path) -> None:
    write_run(tmp_path, "20261124-050648-666", None)
    write_run(tmp_path, "calm_moon", "2026-11-24T06:05:00.000+01:00")
    assert find_run(tmp_path, "last").name == "20261124-050648-666"
    write_run(tmp_path, "brave_sun", "2026-11-24T06:08:56.000+00:00")
    assert find_run(tmp_path, "last").name == "brave_sun"


def test_damaged_events_leave_a_run_by_its_name(tmp_path: Path) -> None:
    write_run(tmp_path, "20261124-050648-666", None)
    for name, text in (("torn", '{"time": "2026'), ("odd", '{"time": 5}\n'), ("list", "[]\n")):
        write_run(tmp_path, name, None)
        (tmp_path / "runs" / name / "events.jsonl").write_text(text)
    assert {path.name for path in list_runs(tmp_path)} == {"20261124-050648-666", "torn", "odd", "list"}
