"""Tables as they are: targets, categories, dates and missing values, and parts by group, time and file."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worldsize.data.counts import count_split
from wsshards import manifest as contents
from wsshards import terms
from wsshards.provenance import describe_data
from wsshards.verify import verify_shards

Run = Callable[..., Any]
CITIES = ("Oslo", "Rome", "Paris", "Kyiv")


def _shard(shard: Run, out: Path, **values: Any) -> contents.Manifest:
    done = shard(shards=out, **values)
    assert done.returncode == 0, done.stderr
    manifest = contents.read_manifest(out)
    verify_shards(out, manifest)
    return manifest


def _rows(out: Path, split: str) -> tuple[Any, Any]:
    import numpy as np

    from wsshards.reader import ShardReader

    reader = ShardReader(out, split)
    return reader.gather(np.arange(len(reader)))


def _houses(path: Path, rows: int = 400, *, gaps: bool = True) -> list[dict[str, Any]]:
    """Write a table of houses; returns its rows."""
    draw = random.Random(0)
    houses = []
    for number in range(rows):
        house = {
            "size": round(draw.uniform(20, 200), 2),
            "city": CITIES[number % 4] if number != 7 else "Lima",
            "sold": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}",
            "garden": "true" if number % 2 else "false",
            "owner": f"owner {number % 40}",
            "price": round(draw.uniform(1, 900), 3),
        }
        if gaps and number % 11 == 0:
            house["size" if number % 2 else "city"] = ""
        houses.append(house)
    lines = [",".join(houses[0]), *(",".join(str(value) for value in house.values()) for house in houses)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return houses


FEATURES = "size,city,sold,garden"


def test_encoders_see_training_rows_alone(shard: Run, tmp_path: Path) -> None:
    import numpy as np

    houses = _houses(tmp_path / "d.csv")
    given = {"data": tmp_path / "d.csv", "label": "price", "features": FEATURES, "missing": "fill"}
    manifest = _shard(shard, tmp_path / "s", **given, test_fraction=0.1, shard_count=3)
    assert manifest.task == terms.REGRESSION
    size, city, sold, garden = manifest.features.columns
    assert [size.kind, city.kind, sold.kind, garden.kind] == ["number", "category", "date", "boolean"]
    assert (size.optional, city.optional, sold.optional) == (True, True, False)
    features, targets = _rows(tmp_path / "s", "train")
    prices = {house["price"]: house for house in houses}
    seen = set()
    for row, target in zip(features.reshape(len(features), -1), targets[:, 0], strict=True):
        house = prices[round(float(target), 3)]
        seen.add(house["city"])
        assert np.isnan(row[0]) if house["size"] == "" else row[0] == np.float32(house["size"])
        assert np.isnan(row[1]) if house["city"] == "" else city.categories[int(row[1])] == house["city"]
        days = (np.datetime64(house["sold"]) - np.datetime64("1970-01-01")).astype(int)
        assert (row[2], row[3], row[4]) == (days, 0, house["garden"] == "true")
    assert city.categories == tuple(sorted(seen - {""}))
    assert size.mean == pytest.approx((np.nanmean(features[:, 0]),), rel=1e-6)
    assert manifest.label is not None
    assert manifest.label.mean == pytest.approx((targets.mean(),))
    assert manifest.label.deviation == pytest.approx((targets.std(),))
    for split in ("validation", "test"):
        codes = _rows(tmp_path / "s", split)[0][:, 1]
        assert set(codes[~np.isnan(codes)]) <= {-1.0, *range(len(city.categories))}
    assert (manifest.train.rows, manifest.validation.rows, manifest.test.rows) == (280, 80, 40)


@pytest.mark.smoke
@pytest.mark.run
def test_spilled_tables_have_the_same_bytes(shard: Run, tmp_path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    rows = 60_000
    columns = [
        rng.integers(0, 50, rows).astype("U"),
        *(rng.standard_normal(rows).round(4).astype("U") for _ in range(20)),
    ]
    names = ["kind", *(f"x{place}" for place in range(20))]
    columns[0] = np.char.add("k", columns[0])
    np.savetxt(tmp_path / "d.csv", np.stack(columns, 1), "%s", ",", header=",".join(names), comments="")
    digests = []
    for limit in (16, 512):  # 4 MiB in memory for 6 MiB of rows, and all of them
        out = tmp_path / str(limit)
        _shard(shard, out, data=tmp_path / "d.csv", label="x19", memory_limit_mib=limit, missing="fill")
        digests.append(
            {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in out.rglob("*.*")}
        )
    assert digests[0] == digests[1]


def test_groups_stay_in_one_part(shard: Run, tmp_path: Path) -> None:
    houses = _houses(tmp_path / "d.csv", gaps=False)
    given = {"data": tmp_path / "d.csv", "label": "price", "features": FEATURES, "split_by": "owner"}
    manifest = _shard(shard, tmp_path / "s", **given, test_fraction=0.1)
    owners = {house["price"]: house["owner"] for house in houses}
    parts = [
        {owners[round(float(target), 3)] for target in _rows(tmp_path / "s", split)[1][:, 0]}
        for split in terms.SPLITS
    ]
    assert [len(part) for part in parts] == [28, 8, 4]  # of 40 owners
    assert len(set.union(*parts)) == 40
    assert manifest.train.rows == 280


def test_rows_are_divided_by_time(shard: Run, tmp_path: Path) -> None:
    _houses(tmp_path / "d.csv", gaps=False)
    given = {"data": tmp_path / "d.csv", "label": "price", "features": FEATURES}
    _shard(shard, tmp_path / "s", **given, validation_after="2026-09-01", test_after="2026-11-01")
    days = [_rows(tmp_path / "s", split)[0][:, 2] for split in terms.SPLITS]
    assert days[0].max() < 20_697 <= days[1].min()  # 2026-09-01
    assert days[1].max() < 20_758 <= days[2].min()  # 2026-11-01


@pytest.mark.run
@pytest.mark.smoke
@pytest.mark.parametrize(
    ("form", "stated", "suffix"),
    [
        ("%d/%m/%Y", "", "csv"),
        ("%m/%d/%Y", "", "jsonl"),
        ("%d.%m.%y", "sold=date %d.%m.%y", "csv"),
        ("%d %b %Y %H:%M", "sold=date %d %b %Y %H:%M", "parquet"),
    ],
)
def test_dates_of_any_form_give_the_shards_of_iso_dates(
    shard: Run, tmp_path: Path, form: str, stated: str, suffix: str
) -> None:
    import pandas as pd

    houses = pd.DataFrame(_houses(tmp_path / "d.csv", gaps=False))
    options = {"label": "price", "features": FEATURES, "validation_after": "2026-09-01"}
    shards = {}
    for name in ("iso", "own"):
        if name == "own":
            houses["sold"] = pd.to_datetime(houses["sold"]).dt.strftime(form)
            options["column_types"] = stated
        file = tmp_path / f"{name}.{suffix}"
        if suffix == "csv":
            houses.to_csv(file, index=False)
        elif suffix == "jsonl":
            houses.to_json(file, orient="records", lines=True)
        else:
            houses.to_parquet(file)
        _shard(shard, tmp_path / name, data=file, **options)
        shards[name] = [path.read_bytes() for path in sorted((tmp_path / name).rglob("*-*.*"))]
    assert len(shards["iso"]) > 0
    assert shards["own"] == shards["iso"]


@pytest.mark.run
@pytest.mark.smoke
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y"])
@pytest.mark.parametrize("texts", [False, True])
def test_a_time_that_is_not_learned_from_has_any_form(
    shard: Run, tmp_path: Path, form: str, texts: bool
) -> None:
    days = [dt.date(2026, number % 12 + 1, number % 28 + 1) for number in range(120)]
    rows = [
        {"size": number, "note": f"note {number}", "price": number / 3, "topic": "ab"[number % 2]}
        | {"sold": day.strftime(form)}
        for number, day in enumerate(days)
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    learned = {"text": "note", "label": "topic"} if texts else {"features": "size", "label": "price"}
    options = {"data": tmp_path / "d.jsonl", "split_time": "sold", "validation_after": "2026-09-01"}
    manifest = _shard(shard, tmp_path / "s", **options, **learned)
    late = [day for day in days if day >= dt.date(2026, 9, 1)]
    assert (manifest.train.rows, manifest.validation.rows) == (120 - len(late), len(late))


@pytest.mark.run
@pytest.mark.smoke
@pytest.mark.parametrize("spilled", [False, True])
def test_the_newest_rows_are_held_out(shard: Run, tmp_path: Path, spilled: bool) -> None:
    start, rows = dt.datetime(2026, 1, 1), 60_000 if spilled else 400
    moments = [start + dt.timedelta(seconds=7 * (number * 7919 % rows)) for number in range(rows)]
    lines = [f"{number},{number % 97 / 3},{moment.isoformat()}" for number, moment in enumerate(moments)]
    (tmp_path / "d.csv").write_text("\n".join(["size,price,sold", *lines]))
    given = {"label": "price", "features": "size", "split_time": "sold"} | {"test_fraction": 0.25}
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d.csv", memory_limit_mib=16, **given)
    counted = [manifest.split(name).rows for name in terms.SPLITS]
    assert counted == [rows * 11 // 20, rows // 5, rows // 4]
    count = count_split(
        tmp_path / "d.csv", {"format": "auto", "sequence_length": 1, "validation_fraction": 0.2, **given}
    )
    assert count is not None
    assert count.rows == counted[0]
    sold = {
        name: [moments[int(size)] for size in _rows(tmp_path / "s", name)[0][:, 0]] for name in terms.SPLITS
    }
    assert max(sold["train"]) < min(sold["validation"])
    assert max(sold["validation"]) < min(sold["test"])
    test_from = min(sold["test"]).replace(tzinfo=dt.timezone.utc)
    assert manifest.division == contents.Division("time", "sold", "date", test_from.timestamp())
    assert describe_data(manifest)["trained_before"] == test_from.isoformat()


@pytest.mark.run
@pytest.mark.smoke
@pytest.mark.parametrize("label", ["topic", ""])
def test_the_newest_texts_are_held_out(shard: Run, tmp_path: Path, label: str) -> None:
    rows = [
        {"note": f"note {day:03} {'x' * 40}", "topic": "ab"[day % 2], "day": day * 37 % 200}
        for day in range(200)
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = {"text": "note", "split_time": "day", "test_fraction": 0.1} | ({"label": label} if label else {})
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d.jsonl", **given)
    assert manifest.division == contents.Division("time", "day", "number", 180)
    if label:
        assert [manifest.split(name).rows for name in terms.SPLITS] == [140, 40, 20]


@pytest.mark.run
@pytest.mark.smoke
def test_the_group_of_each_row_is_kept(shard: Run, tmp_path: Path) -> None:
    houses = _houses(tmp_path / "d.csv", gaps=False)
    given = {"label": "price", "features": "size", "split_by": "owner", "test_fraction": 0.2}
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d.csv", **given)
    assert (manifest.division.method, manifest.division.column) == ("group", "owner")
    assert len(manifest.division.test_below) == 1
    from wsshards.reader import ShardReader

    reader = ShardReader(tmp_path / "s", "test")
    groups = reader.groups()
    assert groups is not None
    owners = {house["price"]: house["owner"] for house in houses}
    pairs = {
        (int(group), owners[price])
        for group, price in zip(groups, reader.labels()[:, 0].tolist(), strict=True)
    }
    assert len(pairs) == len({owner for _, owner in pairs}) == len({group for group, _ in pairs}) > 1


@pytest.mark.run
@pytest.mark.smoke
def test_a_date_that_does_not_fit_the_form_is_named(shard: Run, tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    _houses(file, gaps=False)
    file.write_text(
        file.read_text().replace("2026-01-", "13/01/2026").replace(",13/01/2026", ",13/01/2026#", 1)
    )
    done = shard(shards=tmp_path / "s", data=file, label="price", column_types="sold=date %d/%m/%Y")
    assert done.returncode == 2
    assert "`13/01/2026#01` in column `sold`, which is not a date in the form `%d/%m/%Y`" in done.stderr
    assert "`column_types: NAME=date %d/%m/%Y`" in done.stderr
    _houses(file, gaps=False)
    done = shard(shards=tmp_path / "s", data=file, label="price", column_types="sold=date %d/%m/%Y")
    assert "correct it, or say the form that it has: `column_types: sold=date %Y-%m-%d`" in done.stderr


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_parts_that_are_given(shard: Run, tmp_path: Path, kind: str) -> None:
    import pandas as pd

    for number, name in enumerate(("train", "val", "test")):
        houses = _houses(tmp_path / f"{name}.txt", 60 - 10 * number, gaps=False)
        frame = pd.DataFrame(houses).drop(columns="owner")
        path = tmp_path / "d" / name / f"a.{kind}"
        path.parent.mkdir(parents=True)
        if kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.assign(sold=pd.to_datetime(frame["sold"])).to_parquet(path)
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d", label="price", split="given")
    assert [manifest.split(name).rows for name in terms.SPLITS] == [60, 50, 40]
    assert [column.kind for column in manifest.features.columns][:3] == ["number", "category", "date"]


def test_rows_without_a_value_are_dropped(shard: Run, tmp_path: Path) -> None:
    houses = _houses(tmp_path / "d.csv")
    given = {"data": tmp_path / "d.csv", "label": "price", "features": FEATURES, "missing": "drop"}
    manifest = _shard(shard, tmp_path / "s", **given)
    whole = sum("" not in house.values() for house in houses)
    assert manifest.train.rows + manifest.validation.rows == whole
    assert not any(column.optional for column in manifest.features.columns)
    done = shard(shards=tmp_path / "again", **given)
    assert f"left out: {400 - whole} of 400 rows, without a value" in done.stdout


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_rows_without_a_label_are_left_out_where_others_are_filled(
    shard: Run, tmp_path: Path, kind: str
) -> None:
    import pandas as pd

    frame = pd.DataFrame(_houses(tmp_path / "houses.txt", 60, gaps=False))[["size", "garden", "price"]]
    frame["garden"] = frame["garden"] == "true"
    frame.loc[7, "price"] = frame.loc[8, "price"] = frame.loc[9, "size"] = None
    path = tmp_path / f"d.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    given = {"data": path, "label": "price", "missing": "fill"}
    done = shard(shards=tmp_path / "s", **given)

    assert "left out: 2 of 60 rows, without a label" in done.stdout
    manifest = contents.read_manifest(tmp_path / "s")
    assert manifest.train.rows + manifest.validation.rows == 58
    assert [column.optional for column in manifest.features.columns] == [True, False]
    planned = count_split(path, {"format": "auto", "sequence_length": 1, "validation_fraction": 0.2, **given})
    assert planned is not None
    assert planned.rows == manifest.train.rows


@pytest.mark.parametrize("layout", ["columns", "text", "lists"])
def test_several_labels(shard: Run, tmp_path: Path, layout: str) -> None:
    tags = [("red",), ("blue", "red"), ("green",), ("blue", "green")] * 15
    if layout == "lists":
        lines = [json.dumps({"x": number, "tags": each}) for number, each in enumerate(tags)]
        (tmp_path / "d.jsonl").write_text("\n".join(lines))
        given: dict[str, Any] = {"data": tmp_path / "d.jsonl", "label": "tags"}
    else:
        columns = "x,tags" if layout == "text" else "x,blue,green,red"
        cells = [
            ";".join(each)
            if layout == "text"
            else ",".join(str(int(name in each)) for name in ("blue", "green", "red"))
            for each in tags
        ]
        (tmp_path / "d.csv").write_text(
            "\n".join([columns, *(f"{n},{each}" for n, each in enumerate(cells))])
        )
        given = {"data": tmp_path / "d.csv", "label": "tags" if layout == "text" else "blue,green,red"}
    manifest = _shard(shard, tmp_path / "s", **given)
    assert manifest.task == terms.MULTI_LABEL
    assert manifest.label is not None
    assert manifest.label.classes == ("blue", "green", "red")
    features, labels = _rows(tmp_path / "s", "train")
    for row, marks in zip(features, labels, strict=True):
        assert (
            tuple(name for name, mark in zip(manifest.label.classes, marks, strict=True) if mark)
            == tags[int(row[0])]
        )


def test_targets_of_arrays(shard: Run, tmp_path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=np.arange(50.0)[:, None], y=rng.standard_normal((50, 2)))
    manifest = _shard(shard, tmp_path / "s", data=tmp_path / "d.npz")
    assert manifest.task == terms.REGRESSION
    assert manifest.label is not None
    assert manifest.label.names == ("y_0", "y_1")


LATE = {
    "a fraction among classes": (
        "x,y\n" + "1,1\n2,2\n" * 6000 + "3,2.5\n",
        {},
        "row 12,001 has `2.5` in label `y`",
    ),
    "many classes after few": (
        "x,y\n" + "1,1\n2,2\n" * 6000 + "".join(f"3,{number}\n" for number in range(40)),
        {},
        "label `y` has 40 distinct whole numbers in 12,040 rows",
    ),
    "text among targets": (
        "x,y\n" + "".join(f"{n},{n}.5\n" for n in range(12_000)) + "3,none\n",
        {},
        "line 12002 of `d.csv` has `none` in label `y`, which is not a number",
    ),
    "text among numbers": (
        "x,y\n" + "".join(f"{n},{n % 2}\n" for n in range(12_000)) + "red,1\n",
        {},
        "line 12002 of `d.csv` has `red` in feature column `x`",
    ),
    "too many categories": (
        "x,z,y\n" + "".join(f"{n % 7},c{max(0, n - 11_000)},{n % 2}\n" for n in range(13_000)),
        {},
        "column `z` has more than 1,000 distinct values",
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_rows_behind_the_first_are_held_to_them(shard: Run, tmp_path: Path, name: str) -> None:
    text, values, message = LATE[name]
    (tmp_path / "d.csv").write_text(text)
    done = shard(shards=tmp_path / "s", data=tmp_path / "d.csv", label="y", **values)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr.splitlines()[0]
    assert not (tmp_path / "s" / "manifest.json").exists()


def test_columns_that_alone_tell_the_label_are_named(shard: Run, tmp_path: Path) -> None:
    draw = random.Random(1)
    lines = ["age,city,closed_on,left"]
    for _ in range(600):
        left = draw.random() < 0.3
        closed = f"2026-01-{draw.randint(1, 28):02}" if left else ""
        lines.append(f"{draw.randint(18, 80)},{draw.choice(CITIES)},{closed},{'yes' if left else 'no'}")
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    values = {"data": tmp_path / "d.csv", "label": "left", "missing": "fill"}

    done = shard(shards=tmp_path / "all", **values)
    assert done.returncode == 0, done.stderr
    assert "warning: whether column `closed_on` has a value tells `left`: it is right in 100 %" in done.stderr
    assert "`age`" not in done.stderr
    assert "`city`" not in done.stderr
    done = shard(shards=tmp_path / "by", **values, features="age,city", split_by="city")
    assert done.returncode == 0, done.stderr
    assert "warning: column `city` divides the rows, so no value of it is in two parts" in done.stderr

    done = shard(shards=tmp_path / "some", features="age,city", **values)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
