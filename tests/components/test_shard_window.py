"""The rows of a table that lie in a window of time: what is written, and what is counted before."""

from __future__ import annotations

import csv
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worldsize.data.counts import count_split
from wsshards import manifest as contents

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(300)]

Run = Callable[..., Any]
WINDOW = "2026-01-11/2026-02-09T12:00 sold on"
START, DAYS = dt.date(2026, 1, 1), 60


def _write(path: Path, form: str) -> None:
    days = [START + dt.timedelta(days=number) for number in range(DAYS)]
    rows = [
        {"size": number, "sold on": day.strftime(form), "price": number * 1.5}
        for number, day in enumerate(days)
    ]
    if path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y"])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_only_rows_in_the_window_are_used(shard: Run, tmp_path: Path, suffix: str, form: str) -> None:
    import numpy as np

    from wsshards.reader import ShardReader

    data = tmp_path / f"data{suffix}"
    _write(data, form)
    values = {"label": "price", "features": "size", "test_fraction": 0.2, "window": WINDOW}
    done = shard(data=data, shards=tmp_path / "s", **values)
    assert done.returncode == 0, done.stderr
    assert "left out: 30 of 60 rows, outside the window or without a label" in done.stdout
    sizes: set[float] = set()
    for split in ("train", "validation", "test"):
        reader = ShardReader(tmp_path / "s", split)
        sizes.update(float(row[0]) for row in reader.gather(np.arange(len(reader)))[0])
    assert sizes == set(range(10, 40))
    manifest = contents.read_manifest(tmp_path / "s")
    count = count_split(data, {"format": "auto", "validation_fraction": 0.2, **values})
    assert count is not None
    assert count.rows == manifest.train.rows


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("2026-01-11/2026-02-09 sold", "error: `data.csv` has no column `sold`"),
        ("2026-01-11/2026-02-09 size", "error: column `size` of `data.csv` holds no dates"),
        ("365d sold on", "error: `window` is `365d sold on`, not an interval and a column"),
    ],
)
def test_a_window_that_cannot_be_is_one_sentence(
    shard: Run, tmp_path: Path, window: str, message: str
) -> None:
    _write(tmp_path / "data.csv", "%Y-%m-%d")
    done = shard(data=tmp_path / "data.csv", shards=tmp_path / "s", label="price", window=window)
    assert done.returncode == 2
    assert done.stderr.startswith(message), done.stderr


def test_arrays_have_no_window(shard: Run, tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "a.npz", x=np.zeros((20, 2), np.float32), y=np.arange(20) % 2)
    done = shard(data=tmp_path / "a.npz", shards=tmp_path / "s", window=WINDOW)
    assert "leaves out rows of tables of values, and `a.npz` is read as arrays" in done.stderr
