"""Resources that have a name and no versions, in the database: computes, datastores, connections."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worldsize.serving.control.document import JsonObject
from worldsize.serving.database import Database, now, read_object, use_each

ROW = "SELECT * FROM resources WHERE id = ?"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource; ``body`` is without what only a request for secrets answers."""

    kind: str
    name: str
    body: JsonObject
    secrets: JsonObject
    created: str
    modified: str


def get_resource(database: Database, kind: str, name: str) -> Resource | None:
    """A resource by its name in any case."""
    query = "SELECT * FROM resources WHERE kind = ? AND name = ? COLLATE NOCASE"
    return database.read_one(kind.removesuffix("s"), query, (kind, name), read_resource)


def list_resources(database: Database, kind: str) -> Iterator[Resource]:
    """The resources of a kind in the order in which they were made, one in memory at a time."""
    query = "SELECT id FROM resources WHERE kind = ? ORDER BY id"
    return use_each(kind.removesuffix("s"), database.rows(query, (kind,), ROW), read_resource)


def put_resource(
    database: Database,
    kind: str,
    name: str,
    body: Mapping[str, Any],
    secrets: Mapping[str, Any] | None = None,
) -> Resource:
    """Store a resource, new or changed.

    Args:
        database: The workspace's.
        kind: Of the resource.
        name: Kept as it was first written; another case means the same.
        body: What requests show.
        secrets: What only a request for secrets shows; None keeps what there is.
    """
    time, hidden = now(), None if secrets is None else json.dumps(secrets)
    with database.transaction() as connection:
        query = "SELECT name FROM resources WHERE kind = ? AND name = ? COLLATE NOCASE"
        before = connection.execute(query, (kind, name)).fetchone()
        connection.execute(
            "INSERT INTO resources (kind, name, body, secrets, created, modified) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET body = excluded.body, modified = excluded.modified,"
            " secrets = COALESCE(excluded.secrets, secrets)",
            (kind, before["name"] if before is not None else name, json.dumps(body), hidden, time, time),
        )
        resource = get_resource(database, kind, name)
    assert resource is not None
    return resource


def delete_resource(database: Database, kind: str, name: str) -> bool:
    """Delete a resource; whether there was one."""
    query = "DELETE FROM resources WHERE kind = ? AND name = ? COLLATE NOCASE"
    return database.connection.execute(query, (kind, name)).rowcount > 0


def read_resource(row: sqlite3.Row) -> Resource:
    """The resource that a row of the table holds."""
    return Resource(
        row["kind"],
        row["name"],
        read_object(row["body"]),
        read_object(row["secrets"] or "{}"),
        row["created"],
        row["modified"],
    )
