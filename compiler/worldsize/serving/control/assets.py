"""What the database keeps for clients: assets with versions, and resources without.

The newest version is the one made last, as the service's label ``latest`` says; an archived one counts only
if no other is left.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from worldsize.serving.control.call import JsonObject
from worldsize.serving.database import Database, now, read_row, use_each

KINDS = ("codes", "components", "data", "environments", "models")

CURATED_IMAGES = "mcr.microsoft.com/azureml/curated/"
_DEFAULT = "azureml_default"
# By their ids: SQLite would sort whole rows.
_ROW = "SELECT * FROM assets WHERE id = ?"
_NEWEST = """
SELECT * FROM assets WHERE id =
    (SELECT id FROM assets WHERE kind = ? AND name = ? ORDER BY archived, id DESC LIMIT 1)
"""
_CONTAINERS = """
SELECT c.kind, c.name, c.properties, c.archived, c.created, c.modified,
    (SELECT version FROM assets a WHERE a.kind = c.kind AND a.name = c.name
        ORDER BY archived, id DESC LIMIT 1) AS latest,
    (SELECT iif(json_valid(properties), json_extract(properties, '$.dataType'), NULL)
        FROM assets WHERE id = (SELECT id FROM assets a WHERE a.kind = c.kind AND a.name = c.name
            ORDER BY archived, id DESC LIMIT 1)) AS data_type,
    (SELECT CAST(IFNULL(MAX(CAST(version AS INTEGER)), 0) + 1 AS TEXT) FROM assets a WHERE a.kind = c.kind
        AND a.name = c.name AND version NOT GLOB '*[^0-9]*' AND LENGTH(version) < 18) AS next
FROM containers c WHERE c.kind = ?
"""
# Names that people gave: clients make others for themselves.
NAMED = "iif(json_valid(c.properties), json_extract(c.properties, '$.isAnonymous'), 0) IS NOT 1"


class Asset(msgspec.Struct, frozen=True):
    """One version of an asset; ``properties`` are those of the REST body."""

    kind: str
    name: str
    version: str
    properties: JsonObject
    archived: bool
    created: str
    modified: str
    job: str | None = None  # that made it


class Container(msgspec.Struct, frozen=True):
    """All versions of one name, with what was set on them as a whole."""

    kind: str
    name: str
    properties: JsonObject
    archived: bool
    created: str
    modified: str
    next: str  # the version that a client takes if the user gives none
    latest: str | None = None
    data_type: str | None = None  # of the newest version of a data asset


read_asset = partial(read_row, Asset)
read_container = partial(read_row, Container)


def get_version(database: Database, kind: str, name: str, version: str) -> Asset | None:
    """One version; azure-ai-ml calls the newest of a component ``azureml_default``."""
    if kind == "components" and version == _DEFAULT:
        return get_latest(database, kind, name)
    query = "SELECT * FROM assets WHERE kind = ? AND name = ? AND version = ?"
    return database.read_one(word(kind), query, (kind, name, version), read_asset)


def get_latest(database: Database, kind: str, name: str) -> Asset | None:
    """The newest version of a name."""
    return database.read_one(word(kind), _NEWEST, (kind, name), read_asset)


def list_versions(database: Database, kind: str, name: str, *, limit: int = -1) -> list[Asset]:
    """Versions of a name that are not archived and can be read, the newest first; all for a limit of -1."""
    rows = select_versions(database, kind, name, archived=(False,), limit=limit, skip=0)
    return [*use_each(word(kind), rows, read_asset, name_row)]


def select_versions(
    database: Database, kind: str, name: str, *, archived: Sequence[bool], limit: int, skip: int
) -> Iterable[sqlite3.Row]:
    """The rows of the versions of a name, the newest first."""
    query = (
        "SELECT id FROM assets WHERE kind = ? AND name = ? AND archived IN (?, ?)"
        " ORDER BY id DESC LIMIT ? OFFSET ?"
    )
    return database.rows(query, (kind, name, archived[0], archived[-1], limit, skip), _ROW)


def word(kind: str) -> str:
    """What one asset of a kind is, in messages."""
    return kind.removesuffix("s")


def name_row(row: sqlite3.Row) -> str:
    """The name of a version's row, in messages."""
    return f"{row['name']}:{row['version']}"


def find_uploaded(database: Database, kind: str, content_hash: str) -> Asset | None:
    """The version of any name that was uploaded with this ``hash_sha256``, which a client then uses again."""
    query = (
        "SELECT * FROM assets WHERE kind = ? AND archived = 0"
        " AND iif(json_valid(properties), json_extract(properties, '$.properties.hash_sha256'), NULL) = ?"
        " ORDER BY id DESC LIMIT 1"
    )
    return database.read_one(word(kind), query, (kind, content_hash), read_asset)


def get_container(database: Database, kind: str, name: str) -> Container | None:
    """All versions of a name."""
    return database.read_one(word(kind), f"{_CONTAINERS} AND c.name = ?", (kind, name), read_container)


def select_containers(
    database: Database, kind: str, *, archived: Sequence[bool], limit: int, skip: int
) -> Iterable[sqlite3.Row]:
    """The rows of a kind's names but those that clients make for themselves, in the order of the alphabet."""
    query = f"{_CONTAINERS} AND c.archived IN (?, ?) AND {NAMED} ORDER BY c.name LIMIT ? OFFSET ?"
    return database.connection.execute(query, (kind, archived[0], archived[-1], limit, skip))


# Of the properties what a list shows: others may have megabytes.
_BRIEF = """
SELECT kind, name, version, archived, created, modified, job,
    iif(json_valid(properties), json_object(
        'description', json_extract(properties, '$.description'),
        'modelType', json_extract(properties, '$.modelType'),
        'dataType', json_extract(properties, '$.dataType'),
        'componentSpec', json_object(
            'type', json_extract(properties, '$.componentSpec.type'),
            'description', json_extract(properties, '$.componentSpec.description'))
    ), properties) AS properties,
    (SELECT COUNT(*) FROM assets b WHERE b.kind = a.kind AND b.name = a.name AND b.archived = 0) AS versions
FROM assets a WHERE id = ?
"""
_OF_EACH = f"""
FROM assets a JOIN containers c ON c.kind = a.kind AND c.name = a.name AND c.archived = 0 AND {NAMED}
WHERE a.kind = :kind AND a.archived = 0 AND (:text = '' OR instr(lower(a.name), :text))
GROUP BY a.name ORDER BY a.created DESC LIMIT :limit
"""


def select_newest(database: Database, kind: str, text: str, limit: int) -> Iterable[sqlite3.Row]:
    """The newest version of each name that has ``text``, in brief, with how many ``versions`` there are."""
    values = {"kind": kind, "text": text, "limit": limit}
    # With MAX() the other columns are those of its row: https://sqlite.org/lang_select.html#bareagg
    return database.rows(f"SELECT MAX(a.id) AS id, a.created {_OF_EACH}", values, _BRIEF)


def put_version(
    database: Database,
    kind: str,
    name: str,
    version: str,
    properties: JsonObject,
    *,
    job: str | None = None,
    created: str | None = None,
    modified: str | None = None,
) -> Asset:
    """Store a version, new or changed, and its container.

    ``isArchived`` among the properties of the REST body archives it. The times are now by default.
    """
    archived = bool(properties.get("isArchived"))
    time = now()
    row = {"kind": kind, "name": name, "created": created or time, "modified": modified or time}
    kept = {key: value for key, value in properties.items() if key != "isArchived"}
    container = {"isAnonymous": bool(properties.get("isAnonymous"))}
    with database.transaction():
        database.insert(
            "containers",
            {**row, "properties": container},
            f"ON CONFLICT DO UPDATE SET archived = MIN(archived, {archived:d})",
        )
        database.insert(
            "assets",
            {**row, "version": version, "properties": kept, "archived": archived, "job": job},
            "ON CONFLICT DO UPDATE SET properties = excluded.properties, archived = excluded.archived,"
            " modified = excluded.modified",
        )
        asset = get_version(database, kind, name, version)
    assert asset is not None
    return asset


def put_container(database: Database, kind: str, name: str, properties: JsonObject) -> Container:
    """Set what belongs to all versions of a name; ``isArchived`` archives or restores each of them."""
    archived, time = bool(properties.get("isArchived")), now()
    kept = {key: value for key, value in properties.items() if key in ("description", "tags", "properties")}
    row = {"kind": kind, "name": name, "properties": kept, "archived": archived}
    with database.transaction() as connection:
        database.insert(
            "containers",
            {**row, "created": time, "modified": time},
            "ON CONFLICT DO UPDATE SET properties = json_patch(properties, excluded.properties),"
            " archived = excluded.archived, modified = excluded.modified",
        )
        if "isArchived" in properties:
            query = "UPDATE assets SET archived = ? WHERE kind = ? AND name = ?"
            connection.execute(query, (archived, kind, name))
        container = get_container(database, kind, name)
    assert container is not None
    return container


def delete_version(database: Database, kind: str, name: str, version: str) -> bool:
    """Delete a version, and its container with the last; whether there was one."""
    with database.transaction() as connection:
        query = "DELETE FROM assets WHERE kind = ? AND name = ? AND version = ?"
        deleted = connection.execute(query, (kind, name, version)).rowcount > 0
        if connection.execute(_NEWEST, (kind, name)).fetchone() is None:
            connection.execute("DELETE FROM containers WHERE kind = ? AND name = ?", (kind, name))
    return deleted


def delete_container(database: Database, kind: str, name: str) -> bool:
    """Delete all versions of a name; whether there was one."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM assets WHERE kind = ? AND name = ?", (kind, name))
        query = "DELETE FROM containers WHERE kind = ? AND name = ?"
        return connection.execute(query, (kind, name)).rowcount > 0


ROW = "SELECT * FROM resources WHERE id = ?"


class Resource(msgspec.Struct, frozen=True):
    """One resource; ``body`` is without what only a request for secrets answers."""

    kind: str
    name: str
    body: JsonObject
    created: str
    modified: str
    secrets: JsonObject = {}


read_resource = partial(read_row, Resource)


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

    Its name is kept as it was first written; another case means the same. Without ``secrets``, which only a
    request for them shows, those that there are stay.
    """
    row = {"kind": kind, "body": body, "secrets": secrets, "created": now()}
    with database.transaction() as connection:
        query = "SELECT name FROM resources WHERE kind = ? AND name = ? COLLATE NOCASE"
        before = connection.execute(query, (kind, name)).fetchone()
        database.insert(
            "resources",
            {**row, "name": name if before is None else before["name"], "modified": row["created"]},
            "ON CONFLICT DO UPDATE SET body = excluded.body, modified = excluded.modified,"
            " secrets = COALESCE(excluded.secrets, secrets)",
        )
        resource = get_resource(database, kind, name)
    assert resource is not None
    return resource


def delete_resource(database: Database, kind: str, name: str) -> bool:
    """Delete a resource; whether there was one."""
    query = "DELETE FROM resources WHERE kind = ? AND name = ? COLLATE NOCASE"
    return database.connection.execute(query, (kind, name)).rowcount > 0
