"""The workspace's SQLite database: its tables, and one connection for each thread.

A write is on the disk before its transaction ends, so what a client was answered survives a killed server and
a power cut (https://sqlite.org/wal.html). The processes of jobs write their states to it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from worldsize.serving.errors import ServiceError, bad_request, explain_refused
from worldsize.serving.home import PRIVATE_FILE

Item = TypeVar("Item")
Result = TypeVar("Result")
Record = TypeVar("Record", bound=msgspec.Struct)

VERSION = 1
MOST_VALUES = 100_000  # of a body or a record
TOO_MANY = f"The body has more than {MOST_VALUES:,} values."
_DEEPEST = 100  # levels of it; Python's own limit is ten times this
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BUSY_SECONDS = 30.0  # how long a writer waits for another

SCHEMA = """
-- One version of a code, component, data, environment or model asset; `properties` is the REST body's.
CREATE TABLE assets (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    properties TEXT NOT NULL,
    archived INTEGER NOT NULL DEFAULT 0,
    created TEXT NOT NULL,
    modified TEXT NOT NULL,
    job TEXT,
    UNIQUE (kind, name, version)
);
-- The container of an asset's versions, with what was set on it as a whole.
CREATE TABLE containers (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    properties TEXT NOT NULL,
    archived INTEGER NOT NULL DEFAULT 0,
    created TEXT NOT NULL,
    modified TEXT NOT NULL,
    PRIMARY KEY (kind, name)
);
-- What has a name and no versions: computes, datastores, connections, schedules, …
CREATE TABLE resources (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    secrets TEXT,
    created TEXT NOT NULL,
    modified TEXT NOT NULL,
    UNIQUE (kind, name)
);
-- Submitted jobs, and their children (the steps of a pipeline, the trials of a sweep).
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    parent TEXT,
    root TEXT NOT NULL,
    step TEXT,
    type TEXT NOT NULL,
    display_name TEXT NOT NULL,
    experiment TEXT NOT NULL,
    status TEXT NOT NULL,
    properties TEXT NOT NULL,
    archived INTEGER NOT NULL DEFAULT 0,
    created TEXT NOT NULL,
    started TEXT,
    ended TEXT,
    error_code TEXT,
    error_message TEXT,
    pid INTEGER,
    schedule TEXT
);
CREATE INDEX jobs_by_parent ON jobs (parent, id);
CREATE INDEX jobs_by_status ON jobs (status);
-- Firings of schedules: one row for each due time that was acted on.
CREATE TABLE firings (
    schedule TEXT NOT NULL,
    due TEXT NOT NULL,
    fired TEXT NOT NULL,
    job TEXT,
    error TEXT,
    PRIMARY KEY (schedule, due)
);
-- The versions of models that MLflow's registry has too, with the description and tags of both at their last
-- comparison: what differs from them since then has changed.
CREATE TABLE mirrored_models (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    base TEXT NOT NULL,
    PRIMARY KEY (name, version)
);
-- What clients said of blobs, whose content lies in files: metadata, headers such as Content-Encoding, and
-- the ids and sizes of the committed blocks. A row whose `etag` is not the file's is of an earlier content.
CREATE TABLE blobs (
    container TEXT NOT NULL,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,
    etag TEXT NOT NULL,
    modified TEXT NOT NULL,
    content_type TEXT NOT NULL,
    content_md5 TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    headers TEXT NOT NULL DEFAULT '{}',
    blocks TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (container, path)
);
"""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that could not be used, and why."""

    kind: str
    name: str
    reason: str


_collected: ContextVar[list[Unreadable] | None] = ContextVar("unreadable", default=None)


@contextlib.contextmanager
def collect_unreadable() -> Iterator[list[Unreadable]]:
    """What :func:`contained` left out in the block, also in threads that the block started."""
    unreadable: list[Unreadable] = []
    token = _collected.set(unreadable)
    try:
        yield unreadable
    finally:
        _collected.reset(token)


@contextlib.contextmanager
def contained(kind: str, name: object) -> Iterator[None]:
    """Use one record, which no other has to suffer for: a failure is logged, and ends the block only."""
    try:
        yield
    except Exception as error:  # whatever an older version or another program has written
        fault = Unreadable(kind, str(name)[:300], _say(error)[:300])
        _log_once(fault)
        if (collected := _collected.get()) is not None:
            collected.append(fault)


def _say(error: Exception) -> str:
    named = "" if isinstance(error, ServiceError) else f"{type(error).__name__}: "
    return explain_refused(error) or f"{named}{error}"


@lru_cache(maxsize=1000)
def _log_once(fault: Unreadable) -> None:
    """Log a fault, but not again with each look at the same record."""
    message = "The %s `%s` cannot be read and is left out: %s"
    logging.getLogger(__name__).warning(message, fault.kind, fault.name, fault.reason)


def use_each(
    kind: str,
    items: Iterable[Item],
    use: Callable[[Item], Result],
    name: Callable[[Item], object] | None = None,
) -> Iterator[Result]:
    """What comes of each record, but for those that fail: see :func:`contained`."""
    for item in items:
        results: list[Result] = []
        with contained(kind, (name or _name)(item)):
            results.append(use(item))
        yield from results


def read_record(kind: str, record: Item, read: Callable[[Item], Result]) -> Result:
    """What ``read`` makes of one record.

    Raises:
        ServiceError: 500, it fails.
    """
    try:
        return read(record)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, ServiceError) as error:
        said = f"The {kind} `{_name(record)}` cannot be read: {_say(error)}"
        raise ServiceError(500, "InternalServerError", said) from error


def _name(record: Any) -> object:
    if isinstance(record, sqlite3.Row):
        return record["name"]
    return getattr(record, "name", None) or str(record)[:80]


def text_of(document: Mapping[str, Any], key: str) -> str:
    """The text under a key; empty where there is none."""
    value = document.get(key)
    return value if isinstance(value, str) else ""


def mapping_of(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under a key; empty where there is none."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def texts_of(document: Mapping[str, Any], key: str) -> dict[str, str]:
    """The entries of the object under a key, as texts."""
    return {str(name): str(value) for name, value in mapping_of(document, key).items()}


_DOCUMENTS = ("properties", "body", "secrets", "metadata", "headers", "blocks")  # columns of JSON


def read_row(kind: type[Record], row: sqlite3.Row) -> Record:
    """The record of a row: its fields are named like the columns.

    Raises:
        msgspec.MsgspecError: It is not one, or holds what no answer can carry: half a character.
        ServiceError: 400, it holds too much.
    """
    values = {name: value for name, value in dict(row).items() if value is not None}
    for name in values.keys() & _DOCUMENTS:
        document = msgspec.json.decode(values[name])
        if not _is_shallow(values[name]):
            check_values(document)
        values[name] = document
    return msgspec.convert(values, kind, strict=False)


def _is_shallow(text: str) -> bool:
    """Whether its brackets alone tell that a JSON text is not deep, which is faster than to walk it."""
    brackets = text.encode().translate(None, _NO_BRACKETS)
    for _ in range(_DEEPEST):
        if len(brackets) <= 2 * _DEEPEST:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return False


def check_values(document: object) -> None:
    """Refuse a JSON value with more levels or values than any client's.

    Raises:
        ServiceError: 400.
    """
    level: list[object] = [document]
    count = 0
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = inner
        count += len(level)
        if count > MOST_VALUES:
            raise bad_request(TOO_MANY)
    if level:
        raise bad_request(f"The body has more than {_DEEPEST} levels.")


def now() -> str:
    """The time of day in UTC as the service writes it, with microseconds."""
    return format_time(datetime.now(timezone.utc))


def format_time(moment: datetime) -> str:
    """A time in UTC as the service writes it."""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def read_time(text: str) -> datetime:
    """A time as this database has it: ISO 8601 in UTC, with ``Z``.

    Raises:
        ValueError: It is another text.
    """
    moment = datetime.fromisoformat(text.removesuffix("Z"))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


def time_of(milliseconds: int) -> str:
    """A time that MLflow counts in milliseconds since 1970, as the service writes it."""
    return format_time(EPOCH + timedelta(milliseconds=milliseconds))


def milliseconds_of(time: str) -> int:
    """A time of the service, as MLflow counts it."""
    return (read_time(time) - EPOCH) // timedelta(milliseconds=1)


class Database:
    """The database at ``path``, made at the first use.

    Raises:
        sqlite3.DatabaseError: The file is not a database, or of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))  # SQLite's other files get its mode
        with self.transaction() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise sqlite3.DatabaseError(f"`{path}` was made by a newer Worldsize")
            if version < VERSION:
                for statement in SCHEMA.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection: rows by column name, each statement its own transaction."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
            connection.row_factory = sqlite3.Row
            connection.text_factory = _decode
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._local.connection = connection
        return connection

    def rows(self, ids: str, values: Any, row: str) -> Iterator[sqlite3.Row]:
        """The rows that ``row`` selects by the ids that ``ids`` lists in order, one in memory at a time.

        Where a query has to sort, SQLite would sort whole rows, whose bodies may have megabytes each.
        """
        listed = self.connection.execute(ids, values).fetchall()
        selected = (self.connection.execute(row, (entry["id"],)).fetchone() for entry in listed)
        return (record for record in selected if record is not None)

    def read_one(
        self, kind: str, query: str, values: Iterable[object], read: Callable[[sqlite3.Row], Result]
    ) -> Result | None:
        """The record of a query's first row; None without one.

        Raises:
            ServiceError: 500, the record cannot be read.
        """
        row: sqlite3.Row | None = self.connection.execute(query, tuple(values)).fetchone()
        return None if row is None else read_record(kind, row, read)

    def insert(self, table: str, values: Mapping[str, Any], conflict: str = "") -> bool:
        """Insert a row, objects and lists as JSON; whether that, or what ``conflict`` says, changed a row."""
        row = {
            name: json.dumps(value) if isinstance(value, (Mapping, list, tuple)) else value
            for name, value in values.items()
        }
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        words = ("INSERT INTO", table, f"({columns}) VALUES ({marks})", conflict)
        return self.connection.execute(" ".join(words), row).rowcount > 0

    async def change(self, make: Callable[[], Result]) -> Result:
        """What a change results in, which is made in a thread, and sees and makes one state."""

        def make_in_thread() -> Result:
            with self.transaction():
                return make()

        return await asyncio.to_thread(make_in_thread)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write everything or nothing; other writers wait from its beginning."""
        connection = self.connection
        if connection.in_transaction:  # part of an outer one
            yield connection
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")  # a full disk refuses it, and the transaction would stay open
        except BaseException:
            if connection.in_transaction:  # else SQLite has ended it itself
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close this thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            del self._local.connection


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")  # else one such text would end its whole query
