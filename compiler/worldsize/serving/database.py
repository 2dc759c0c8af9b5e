"""The workspace's SQLite database: its tables, and one connection for each thread.

A write is on the disk before its transaction ends, so what a client was answered survives a killed server and
a power cut (https://sqlite.org/wal.html). The processes of jobs write their states to it too.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from worldsize.serving.home import PRIVATE_FILE

VERSION = 1
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


def now() -> str:
    """The time of day in UTC as the service writes it, with microseconds."""
    return _format(datetime.now(timezone.utc))


def time_of(milliseconds: int) -> str:
    """A time that MLflow counts in milliseconds since 1970, as the service writes it."""
    return _format(EPOCH + timedelta(milliseconds=milliseconds))


def milliseconds_of(time: str) -> int:
    """A time of the service, as MLflow counts it."""
    return (datetime.fromisoformat(time.removesuffix("Z") + "+00:00") - EPOCH) // timedelta(milliseconds=1)


def _format(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


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
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._local.connection = connection
        return connection

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
