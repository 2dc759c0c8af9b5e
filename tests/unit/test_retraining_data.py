"""What a look reads: files in a window, new rows, firings of a schedule, and why a run failed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import Scalar, find_node
from worldsize.retraining.data import (
    Reading,
    Source,
    count_new_rows,
    count_rows,
    keep_files,
    read_source,
    replace_paths,
)
from worldsize.retraining.local import explain_failure
from worldsize.retraining.look import count_firings
from worldsize.retraining.policy import DataPolicy, Policy
from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.running.reuse.digests import Digests
from worldsize.spec import from_document
from worldsize.spec.model import Schedule

NOW = datetime(2026, 3, 2, 3, tzinfo=timezone.utc).timestamp()
DAY = 86400.0
NO_FOLDER = "spec.yml:3:9: `sales` has no folder `sold_on=2026-03-02` or the like"
TEXT = "inputs:\n  sales: {path: ./sales}  # the feed\n  other: './a b'\n"


def make_source(folder: Path, files: Mapping[str, str]) -> Source:
    for name, text in files.items():
        path = folder / "sales" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    node = find_node(yaml.load("spec.yml", TEXT).root, "inputs", "sales", "path")
    assert isinstance(node, Scalar)
    return Source("sales", folder / "sales", node, ("shard",))


def read(source: Source, window: float | None = None, by: str | None = None) -> Reading:
    return read_source(
        source, Policy({"sales": DataPolicy(window, by, place="spec.yml:3:9")}), NOW, Digests()
    )


@pytest.mark.parametrize(
    ("by", "names", "chosen"),
    [
        ("date", ["date=2026-02-20/a.csv", "date=2026-02-28/b.csv", "date=2026-03-03/c.csv"], [1]),
        ("date", ["date=2026-01/a.csv", "date=2026-02/b.csv", "date=20260302/c.csv"], [1, 2]),
        ("month", ["month=2026-03/region=eu/a.csv", "date=2026-03-01/b.csv"], [0]),
        (
            "file_name",
            ["sales-2026-02-28.csv", "sales_20260301.csv", "sales_20250301.csv", "notes.csv"],
            [0, 1],
        ),
        ("file_name", ["2026-02-30.csv", "2026-02-27.csv"], [1]),
    ],
)
def test_a_window_by_dates(tmp_path: Path, by: str, names: list[str], chosen: list[int]) -> None:
    source = make_source(tmp_path, dict.fromkeys(names, "a\n1\n"))
    assert sorted(read(source, 7 * DAY, by).files) == sorted(names[index] for index in chosen)
    assert len(read(source).files) == len(names)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_window_by_a_column(tmp_path: Path, name: str) -> None:
    def write(days: list[str]) -> None:
        as_json = "".join(f'{{"sold on": "{day}"}}\n' for day in days)
        text = "sold on,price\n" + "".join(f"{day},1\n" for day in days) if name == "a.csv" else as_json
        make_source(tmp_path, {name: text})

    source = make_source(tmp_path, {name: ""})
    write(["2026-02-01", "2026-02-23", "2026-02-27", "2026-03-02T09:00"])
    first = read(source, 7 * DAY, "sold on")
    assert first.rows == (2, 1, 1)  # the window is up to 3 o'clock, and from 3 o'clock a week before
    assert first.window == "2026-02-23T03:00:00Z/2026-03-02T03:00:00Z sold on"
    assert read(source, 6 * DAY, "sold on").fingerprint == first.fingerprint  # no row has left
    wider = read(source, 8 * DAY, "sold on")
    assert wider.fingerprint != first.fingerprint
    assert wider.digest == first.digest
    assert count_new_rows(wider, first) == 0
    write(["2026-02-23", "2026-02-27", "2026-03-02T09:00", "2026-03-01", "2026-03-01"])
    assert count_new_rows(read(source, 7 * DAY, "sold on"), first) == 1  # one was removed, two are new
    unable = Source("sales", source.path, source.node, ("shard",), ("train",))
    assert read(unable, 7 * DAY, "sold on").fault == (
        f"{NO_FOLDER.replace('_', ' ')}, and step `train`, which reads it, cannot leave out rows by a column"
    )


def test_a_window_by_modification_time(tmp_path: Path) -> None:
    source = make_source(tmp_path, {"old.csv": "a\n", "new.csv": "a\n", "later.csv": "a\n"})
    for name, age in (("old.csv", 8), ("new.csv", 6), ("later.csv", -1)):
        os.utime(source.path / name, (NOW - age * DAY,) * 2)
    assert list(read(source, 7 * DAY, "modification_time").files) == ["new.csv"]


@pytest.mark.parametrize(
    ("names", "by", "fault"),
    [
        ([], None, "`sales` has no files in `sales`"),
        (["_SUCCESS", ".part/a.csv"], None, "`sales` has no files in `sales`"),
        (
            ["a.csv"],
            "file_name",
            "spec.yml:3:9: no file of `sales` has a date such as `2026-03-02` in its name",
        ),
        (["2020-01-01.csv"], "file_name", "`sales` has no files in its window, since 2026-02-23"),
        (
            ["a.csv"],
            "sold_on",
            f"{NO_FOLDER}, and `a.csv` has no column `sold_on`",
        ),
        (
            ["a.csv"],
            "a",
            f"{NO_FOLDER.replace('sold_on', 'a')}, and column `a` holds no dates",
        ),
        (
            ["a.txt"],
            "sold_on",
            f"{NO_FOLDER}, and `a.txt` is no CSV, JSON Lines or Parquet file, whose columns are read",
        ),
    ],
)
def test_nothing_to_read_is_a_fault(tmp_path: Path, names: list[str], by: str | None, fault: str) -> None:
    source = make_source(tmp_path, dict.fromkeys(names, "a\n1\n"))
    assert read(source, 7 * DAY if by else None, by).fault == fault


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    source = make_source(tmp_path, {"a.csv": "a\n1\n"})
    before = read(source)
    os.utime(source.path / "a.csv", (NOW, NOW))
    (source.path / ".hidden").write_text("x")
    assert read(source).digest == before.digest
    (source.path / "a.csv").write_text("a\n2\n")
    assert read(source).digest != before.digest


def test_new_rows_are_those_of_new_files_and_of_longer_ones(tmp_path: Path) -> None:
    source = make_source(tmp_path, {"a.csv": 'a,b\n1,2\n"x\ny",3\n\n', "b.jsonl": '{"a": 1}\n{"a": 2}'})
    first = count_rows(source, read(source), None)
    assert {name: file.rows for name, file in first.files.items()} == {"a.csv": 2, "b.jsonl": 2}
    assert count_new_rows(first, None) == 4
    (source.path / "a.csv").write_text("a,b\n1,2\n1,3\n1,4\n")
    (source.path / "b.jsonl").unlink()
    (source.path / "c.tsv").write_text("a\n1\n")
    assert count_new_rows(count_rows(source, read(source), first), first) == 2
    (source.path / "d.parquet").write_text("")
    assert count_new_rows(count_rows(source, read(source), first), first) is None


def test_a_copy_stays_as_it_was(tmp_path: Path) -> None:
    source = make_source(tmp_path, {"x/a.csv": "a\n1\n", "b.csv": "a\n2\n"})
    reading = read(source)
    keep_files(source, reading, tmp_path / "kept" / "sales")
    (source.path / "x" / "a.csv").write_text("a\n3\n")
    (source.path / "new.csv").write_text("a\n3\n")
    copy = Source("sales", tmp_path / "kept" / "sales", source.node)
    assert read(copy).digest == reading.digest


def test_only_the_paths_of_a_spec_are_replaced(tmp_path: Path) -> None:
    source = make_source(tmp_path, {})
    text = replace_paths(TEXT, {source: tmp_path / "kept" / "sales"}, tmp_path)
    assert text == TEXT.replace("./sales", '"kept/sales"')


def read_schedule(text: str) -> Schedule:
    spec = "name: s\ncompute: {c: {target: azureml:c}}\nsteps: {s: {uses: evaluate}}\nschedule: "
    loaded, _ = from_document(yaml.load("spec.yml", f"{spec}{text}\n"))
    assert loaded is not None
    assert loaded.schedule is not None
    return loaded.schedule


@pytest.mark.parametrize(
    ("schedule", "days", "count"),
    [
        ('{cron: "0 3 * * 1"}', 21, 3),
        ('{cron: "0 3 * * 1"}', 6.9, 0),
        ('{cron: "0 4 * * *", time_zone: W. Europe Standard Time}', 2, 2),  # 3 in UTC
        ("{recurrence: {frequency: week, interval: 2}}", 29, 2),
        ("{recurrence: {frequency: hour, interval: 6}}", 1, 4),
    ],
)
def test_firings_are_counted(schedule: str, days: float, count: int) -> None:
    assert count_firings(read_schedule(schedule), NOW, NOW + days * DAY) == count
    assert count_firings(None, NOW, NOW + days * DAY) is None


@pytest.mark.parametrize(
    ("status", "lines", "parameters", "cause"),
    [
        (75, [], {}, "eviction"),
        (124, [], {}, "hang"),
        (-9, [], {}, "machine"),
        (1, ["Traceback (most recent call last):", "ValueError: x"], {}, "code"),
        (2, ["error: `sales.csv` has no column `y`"], {"data": "/sales"}, "data"),
        (2, ["error: `rate` is not a number"], {}, "configuration"),
        (-11, [], {}, "code"),
    ],
)
def test_causes_by_how_the_first_process_ended(
    status: int, lines: list[str], parameters: dict[str, str], cause: str
) -> None:
    step = StepRecord(
        "train", "failed", failed_process="rank-1", last_lines=tuple(lines), parameters=parameters
    )
    ended: dict[str, Any] = {"event": "process_ended", "step": "train", "process": "rank-1", "status": status}
    run = RunRecord(Path("run"), "failed", steps={"train": step}, events=[ended])
    found, reason = explain_failure(run)
    assert found == cause
    assert reason.startswith("step `train`: ")
