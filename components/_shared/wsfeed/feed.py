"""What `feed.json` says of the rows that a training reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wsfeed.tally import Sample, Tally, rank_error
from wsshards.errors import UserError, clip_text, describe_error
from wsshards.manifest import FEED_NAME, add_checksum, has_valid_checksum
from wsshards.regular_files import read_regular
from wsshards.terms import CATEGORY, DATE

MAX_BYTES = 16 << 20
EDGES = 100  # of a column, at most
CLASS = "class"  # the kind of a label that is not a number
VALUES = 1_000  # categories or classes of a column that are counted one by one
_CELLS = 1 << 16  # edges, or values, of all columns together
_AGAIN = "leave `feed_reference` out, or give the `feed.json` of a model that was trained before"
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Column:
    """What a column, or a label, holds.

    Attributes:
        name: as in the file.
        kind: one of `wsshards.terms.COLUMN_KINDS`, or `class`.
        missing: cells without a value.
        low: smallest value; None if there is none, as in categories.
        high: largest value.
        mean: of the sampled rows.
        deviation: standard deviation of the sampled rows.
        edges: ascending values, up to which `counts` counts; the last one is the largest sampled value.
        counts: sampled rows above the edge before, up to and including this one.
        values: rows by category or class.
        others: rows of categories that `values` has no room for.
    """

    name: str
    kind: str
    missing: int = 0
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    deviation: float | None = None
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)
    others: int = 0


@dataclass(frozen=True)
class Feed:
    """The statistics of a feed, or of a part of it.

    Attributes:
        rows: that are written as shards.
        sampled: rows of which edges, means and deviations are.
        rank_error: of the edges, as a share of rows, in 99 of 100 feeds; 0 if all rows are sampled.
        left_out: rows that were not kept: they lack a value, or are pictures that cannot be read.
        copies: share of the rows that are equal to another one.
        copies_are_exact: whether it is counted, not estimated from a part of the rows.
        time: the column that divides rows by time, or empty.
        newest: the latest time in it.
        columns: of a table, or measures of pictures and texts.
        labels: what is predicted.
        reading: the inputs that say how the data is read.
    """

    rows: int
    sampled: int = 0
    rank_error: float = 0.0
    left_out: int = 0
    copies: float = 0.0
    copies_are_exact: bool = True
    time: str = ""
    newest: float | None = None
    columns: tuple[Column, ...] = ()
    labels: tuple[Column, ...] = ()
    reading: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """Where a tally has each column: its block, its place in a row of it, and the names of its codes."""

    name: str
    kind: str
    block: int
    place: int
    codes: tuple[str, ...] = ()


def describe(
    tally: Tally, layout: list[Layout], samples: Mapping[str, Array], lost: Mapping[str, int]
) -> list[Column]:
    """Return the columns of a tally, in the order of the layout.

    Args:
        tally: of the rows.
        layout: of its blocks.
        samples: of :func:`take_samples`.
        lost: by column, cells without a value in rows that were left out.
    """
    share = max(1, _CELLS // max(len(layout), 1))
    columns = []
    for entry in layout:
        extremes, missing = tally.extremes[entry.block], lost.get(entry.name, 0)
        missing += int(extremes.missing[entry.place])
        low, high = float(extremes.low[entry.place]), float(extremes.high[entry.place])
        if entry.kind == CATEGORY:
            counts = tally.categories[entry.place].counts
            columns.append(count_values(entry, counts, min(VALUES, share), missing))
        elif low > high:  # no value at all
            columns.append(Column(entry.name, entry.kind, missing))
        else:
            values = samples.get(entry.name, np.empty(0))
            columns.append(_describe_numbers(entry, values, min(EDGES, share), (missing, low, high)))
    return columns


def take_samples(tally: Tally, layout: list[Layout]) -> dict[str, Array]:
    """Return the sampled numbers of each column in ascending order, without missing ones.

    Dates have none, as they always move on.
    """
    blocks, samples = tally.sample.blocks, {}
    for entry in layout:
        if entry.kind not in (CATEGORY, DATE):
            values = np.sort(blocks[entry.block][:, entry.place])  # NaN comes last
            samples[entry.name] = values[: len(values) - int(np.isnan(values).sum())].astype(np.float64)
    return samples


def count_values(entry: Layout, counts: Array, most: int = VALUES, missing: int = 0) -> Column:
    """Return a column of categories or classes: the most frequent ones, the others as a number."""
    rows = {name: int(count) for name, count in zip(entry.codes, counts, strict=False) if count}
    kept = sorted(rows, key=lambda name: (-rows[name], name))[:most]
    values = {name: rows[name] for name in sorted(kept)}
    return Column(
        entry.name, entry.kind, missing, values=values, others=sum(rows.values()) - sum(values.values())
    )


def _describe_numbers(entry: Layout, values: Array, most: int, exact: tuple[int, float, float]) -> Column:
    """Return a column of numbers: its sampled values in ascending order, and what is known of all."""
    if not len(values):
        return Column(entry.name, entry.kind, *exact)
    places = np.unique(np.linspace(1, len(values), most).astype(np.int64) - 1)
    edges = np.unique(values)
    edges = edges if len(edges) <= most else np.unique(values[places])
    ends = np.searchsorted(values, edges, side="right")
    return Column(
        entry.name,
        entry.kind,
        *exact,
        mean=float(values.mean()),
        deviation=float(values.std()),
        edges=tuple(edges.tolist()),
        counts=tuple(np.diff(ends, prepend=0).tolist()),
    )


def feed_to_json(feed: Feed, findings: Sequence[Any], distances: Mapping[str, Any]) -> str:
    """Return the text of `feed.json`: the statistics, what was found, and the distances by column."""
    content = {
        "version": 1,
        **asdict(feed),
        "warnings": [finding._asdict() for finding in findings],
        "drift": {name: distance._asdict() for name, distance in distances.items()},
    }
    return json.dumps(add_checksum(content), ensure_ascii=False) + "\n"


def read_feed(path: Path) -> Feed:
    """Read the statistics of a feed from a file, or from the folder of a model or of shards.

    Raises:
        UserError: there is none, or it is not what was written.
    """
    path = path / FEED_NAME if path.is_dir() else path
    try:
        document = json.loads(read_regular(path, MAX_BYTES))
        if not has_valid_checksum(document):
            raise UserError(f"`{path}` is not what was written: its own sha256 does not fit it", _AGAIN)
        names = {entry.name for entry in fields(Feed)}
        content = {name: value for name, value in document.items() if name in names}
        for name in ("columns", "labels"):
            content[name] = tuple(_read_column(column) for column in content[name])
        return Feed(**content)
    except OSError as error:
        raise UserError(f"cannot read `{path}`: {describe_error(error)}", _AGAIN) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"`{path}` has no statistics of a feed: {clip_text(str(error))}", _AGAIN) from None


def _read_column(content: Mapping[str, Any]) -> Column:
    edges, counts = tuple(content["edges"]), tuple(content["counts"])
    if len(edges) != len(counts):
        raise ValueError("a column has not as many edges as counts")
    return Column(**{**content, "edges": edges, "counts": counts})


def make_rank_error(sample: Sample) -> float:
    """Return the error of the edges of a sample."""
    return 0.0 if sample.is_whole else round(rank_error(sample.rows), 5)
