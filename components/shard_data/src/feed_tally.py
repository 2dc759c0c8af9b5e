"""Gathers the statistics of the feed while it is read, and judges it before anything is written."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from labels import LabelEncoder
from sources.common import Batch, Source
from spill import Rows

from wsfeed.feed import (
    CLASS,
    Feed,
    Layout,
    count_values,
    describe,
    feed_to_json,
    make_rank_error,
    read_feed,
    take_samples,
)
from wsfeed.gate import Distance, Finding, Part, judge, measure_drift, stop
from wsfeed.policy import parse_policy
from wsfeed.tally import Tally
from wsshards.errors import print_warning
from wsshards.manifest import FEED_NAME
from wsshards.provenance import format_time
from wsshards.terms import CATEGORY, DATE, NUMBER
from wsshards.whole_file import write_whole
from wssources.split import U64, hash_rows, mix_bits

SAMPLED_BYTES, SAMPLED_ROWS = 8 << 20, 1 << 16  # of the sample, at most, whatever the memory limit
_PIXELS = 4096  # of a picture, that its brightness is taken from
MAX_WARNINGS = 5  # that are printed
_LEAST_NEWER = 20  # rows that are judged by themselves
_READING = ("label", "features", "column_types", "task", "missing", "source")
Array = npt.NDArray[Any]


class FeedTally:
    """Statistics of all rows, and of those that are newer than the champion's feed.

    Raises:
        UserError: an input names no check, or the champion's feed cannot be read.
    """

    def __init__(self, source: Source, labels: LabelEncoder, options: argparse.Namespace) -> None:
        self._source, self._labels, self._options = source, labels, options
        self._policy = parse_policy(options.feed_stop, options.feed_warn, options.feed_thresholds)
        self._reference = read_feed(Path(options.feed_reference)) if options.feed_reference else None
        self._newest: float | None = None
        self._measure = _name_measure(source)
        self._targets = labels.width if labels.dtype == "float64" else 0
        width = 1 if self._measure else sum(column.width for column in source.features.columns)
        rows = min(SAMPLED_ROWS, SAMPLED_BYTES // (8 + 4 * (width + self._targets)))
        coded = [entry.place for entry in self._find_columns() if entry.kind == CATEGORY]
        self._older, self._newer = (Tally((width, self._targets), coded, rows) for _ in range(2))

    def add(self, batch: Batch, rows: Rows) -> None:
        """Take in rows as they are stored."""
        features = rows.features if self._source.features.columns else _measure(self._source, rows.features)
        targets = rows.labels if self._targets else np.empty((len(rows), 0))
        hashes = _hash_content(self._source, batch, rows)
        newer = self._find_newer(batch, len(rows))
        for tally, which in ((self._newer, newer), (self._older, ~newer)):
            if not which.any():
                continue
            chosen = slice(None) if which.all() else which
            several = self._labels.dtype == "uint8"
            classes = np.nonzero(rows.labels[chosen])[1] if several else rows.codes[chosen]
            tally.add([features[chosen], targets[chosen]], classes, rows.keys[chosen], hashes[chosen])

    def judge(self) -> Judged:
        """Judge all rows, and print what only warns.

        Raises:
            UserError: a check stops the feed.
        """
        newer = self._describe(self._newer, {}) if self._reference is not None else None
        whole = self._describe(self._older.merge(self._newer), self._source.lost)
        parts = [whole]
        if newer is not None and _LEAST_NEWER <= newer.feed.rows < whole.feed.rows:
            assert self._reference is not None
            assert self._reference.newest is not None
            bounds, since = self._source.bounds, f"{self._reference.newest:g}"
            if bounds is not None and bounds.kind == DATE:
                since = format_time(self._reference.newest)
            parts.insert(0, replace(newer, where=f" in the {newer.feed.rows:,} rows after {since}"))
        distances = measure_drift(whole, self._reference) if self._reference is not None else {}
        findings = judge(parts, self._reference, self._policy, distances)
        stop(findings, self._policy)
        for finding in findings[:MAX_WARNINGS]:
            print_warning(f"the feed: {finding.message}")
        if len(findings) > MAX_WARNINGS:
            print_warning(f"the feed: {len(findings) - MAX_WARNINGS:,} more warnings are in `{FEED_NAME}`")
        return Judged(whole.feed, findings, distances)

    def _find_newer(self, batch: Batch, rows: int) -> npt.NDArray[np.bool_]:
        """Tell which rows are newer than all of the champion's feed."""
        reference, bounds = self._reference, self._source.bounds
        if batch.times is None or bounds is None:
            return np.zeros(rows, bool)
        self._newest = max(float(batch.times.max()), -np.inf if self._newest is None else self._newest)
        if reference is None or reference.newest is None or reference.time != bounds.column:
            return np.zeros(rows, bool)
        newer: npt.NDArray[np.bool_] = batch.times > reference.newest
        return newer

    def _find_columns(self) -> list[Layout]:
        """Return where the tally has each column, once all codes are known."""
        if self._measure:
            return [Layout(self._measure, NUMBER, 0, 0)]
        layout, place = [], 0
        known = self._source.codes.categories if self._source.codes is not None else {}
        for column in self._source.features.columns:
            layout.append(Layout(column.name, column.kind, 0, place, tuple(known.get(column.name, ()))))
            place += column.width
        return layout

    def _describe(self, tally: Tally, lost: Mapping[str, int]) -> Part:
        names = self._source.labels or ((self._source.label,) if self._source.label else ())
        layout, classes = self._find_columns(), self._labels.classes
        targets = [Layout(name, NUMBER, 1, place) for place, name in enumerate(names[: self._targets])]
        samples = take_samples(tally, [*layout, *targets])
        described = describe(tally, [*layout, *targets], samples, lost)
        columns = [described[: len(layout)], described[len(layout) :]]
        if classes:
            entry = Layout(", ".join(names), CLASS, 0, 0, classes)
            columns[1] = [count_values(entry, tally.classes.counts)]
        feed = Feed(
            rows=tally.rows,
            sampled=tally.sample.rows,
            rank_error=make_rank_error(tally.sample),
            left_out=lost.get("", 0),
            copies=tally.copies.share,
            copies_are_exact=tally.copies.is_exact,
            time=self._source.bounds.column if self._newest is not None and self._source.bounds else "",
            newest=self._newest,
            columns=tuple(columns[0]),
            labels=tuple(columns[1]),
            reading={name: str(getattr(self._options, name)) for name in _READING},
        )
        return Part(feed, samples)


@dataclass(frozen=True)
class Judged:
    """A feed that is not stopped, with what was found and how far its columns are from the champion's."""

    feed: Feed
    findings: list[Finding]
    distances: Mapping[str, Distance]

    def write(self, folder: Path) -> str:
        """Write the statistics into a folder of shards, and return the file's SHA-256."""
        text = feed_to_json(self.feed, self.findings, self.distances)
        write_whole(folder / FEED_NAME, text)
        return hashlib.sha256(text.encode()).hexdigest()


def _name_measure(source: Source) -> str:
    """Return what is measured of rows that have no columns of numbers; nothing of a language model's."""
    features = source.features
    if source.blob is not None:
        return "bytes of a picture"
    if features.tokenizer is not None:
        return "" if features.tokenizer.padding is None else "tokens of a text"
    return "" if features.columns else "brightness" if features.resize else "mean of a row"


def _measure(source: Source, rows: Array) -> Array:
    """Return the measure of rows `[n, width]` as `[n, 1]`, or `[n, 0]` if there is none."""
    features = source.features
    if source.blob is not None:
        return rows[:, 1:2].astype(np.float32)
    if features.tokenizer is not None:
        padding = features.tokenizer.padding
        if padding is None:
            return np.empty((len(rows), 0), np.float32)
        return np.count_nonzero(rows != padding, axis=1, keepdims=True).astype(np.float32)
    step = max(1, features.width // _PIXELS) if features.resize else 1
    means: Array = rows[:, ::step].mean(axis=1, keepdims=True, dtype=np.float32) * np.float32(features.scale)
    return means


def _hash_content(source: Source, batch: Batch, rows: Rows) -> U64:
    """Return the hashes `[n]` of all that rows hold, which those that divide them may not be."""
    if source.blob is not None:
        content = rows.features[:, 2]
    elif batch.hashes is None or (source.codes is not None and batch.times is None and not source.grouped):
        content = rows.hashes
    else:
        content = hash_rows(rows.features, 0)
    content = mix_bits(content ^ rows.codes.astype(np.uint64))
    return content ^ hash_rows(np.ascontiguousarray(rows.labels), 0) if rows.labels.shape[1] else content
