"""The model versions in MLflow's database, read and written without MLflow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from worldsize.tracking.database import open_to_write, query

DELETED = "Deleted_Internal"  # the stage of a version that was deleted


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a registered model."""

    name: str
    version: str  # a number
    location: str  # of its files
    run: str | None
    description: str | None
    tags: Mapping[str, str]
    created: int  # milliseconds since 1970, as MLflow counts them
    modified: int


_TAGS = "SELECT name, version, key, value FROM model_version_tags"
_VERSIONS = (
    "SELECT name, version, COALESCE(storage_location, source) AS location, run_id, description,"
    " creation_time, last_updated_time FROM model_versions WHERE current_stage <> ?"
)


def read_versions(registry: sqlite3.Connection) -> dict[tuple[str, str], ModelVersion]:
    """All versions, by name and version."""
    return _join(registry.execute(_VERSIONS, (DELETED,)), registry.execute(_TAGS))


def read_model(home: Path, name: str) -> list[ModelVersion]:
    """The versions of a model; none if there is no such model."""
    versions = query(home, f"{_VERSIONS} AND name = ? ORDER BY version", DELETED, name)
    return list(_join(versions, query(home, f"{_TAGS} WHERE name = ?", name)).values())


def read_model_names(home: Path) -> list[str]:
    """The names of all registered models."""
    return [str(row["name"]) for row in query(home, "SELECT name FROM registered_models ORDER BY name")]


def _join(
    rows: Iterable[sqlite3.Row], rows_of_tags: Iterable[sqlite3.Row]
) -> dict[tuple[str, str], ModelVersion]:
    tags: dict[tuple[str, int], dict[str, str]] = {}
    for row in rows_of_tags:
        tags.setdefault((row["name"], row["version"]), {})[row["key"]] = row["value"]
    versions = {}
    for row in rows:
        name, number = row["name"], row["version"]
        versions[name, str(number)] = ModelVersion(
            name,
            str(number),
            row["location"] or "",
            row["run_id"],
            row["description"],
            tags.get((name, number), {}),
            row["creation_time"] or 0,
            row["last_updated_time"] or row["creation_time"] or 0,
        )
    return versions


def write_version(registry: sqlite3.Connection, version: ModelVersion) -> None:
    """Add a version."""
    values = _list_values(version)
    registry.execute(
        "INSERT OR IGNORE INTO registered_models (name, creation_time, last_updated_time)"
        " VALUES (:name, :created, :modified)",
        values,
    )
    remove_version(registry, version.name, version.version)
    registry.execute(
        "INSERT INTO model_versions (name, version, creation_time, last_updated_time, description,"
        " current_stage, source, storage_location, run_id, status) VALUES (:name, :version, :created,"
        " :modified, :description, 'None', :location, :location, :run, 'READY')",
        values,
    )
    _write_tags(registry, version)


def change_version(registry: sqlite3.Connection, version: ModelVersion) -> None:
    """Change the description and the tags of a version."""
    registry.execute(
        "UPDATE model_versions SET description = :description, last_updated_time = :modified"
        " WHERE name = :name AND version = :version",
        _list_values(version),
    )
    _write_tags(registry, version)


def _list_values(version: ModelVersion) -> dict[str, Any]:
    return {**asdict(version), "version": int(version.version)}


def remove_version(registry: sqlite3.Connection, name: str, version: str) -> None:
    """Remove a version with its tags and aliases."""
    which = (name, int(version))
    registry.execute("DELETE FROM model_version_tags WHERE name = ? AND version = ?", which)
    registry.execute("DELETE FROM registered_model_aliases WHERE name = ? AND version = ?", which)
    registry.execute("DELETE FROM model_versions WHERE name = ? AND version = ?", which)


def set_source(home: Path, name: str, version: str, source: str) -> None:
    """Change where a version's files are; clients cannot."""
    with open_to_write(home) as registry:
        registry.execute(
            "UPDATE model_versions SET source = ?, storage_location = ? WHERE name = ? AND version = ?",
            (source, source, name, int(version)),
        )


def set_tag(home: Path, name: str, version: str, key: str, value: str) -> None:
    """Set a tag of a version."""
    with open_to_write(home) as registry:
        registry.execute(
            "INSERT OR REPLACE INTO model_version_tags (name, version, key, value) VALUES (?, ?, ?, ?)",
            (name, int(version), key, value),
        )


def delete_version(home: Path, name: str, version: str) -> None:
    """Mark a version as deleted, as MLflow does: its number is not given again."""
    with open_to_write(home) as registry:
        registry.execute(
            "UPDATE model_versions SET current_stage = ? WHERE name = ? AND version = ?",
            (DELETED, name, int(version)),
        )


def _write_tags(registry: sqlite3.Connection, version: ModelVersion) -> None:
    number = int(version.version)
    registry.execute("DELETE FROM model_version_tags WHERE name = ? AND version = ?", (version.name, number))
    registry.executemany(
        "INSERT INTO model_version_tags (name, version, key, value) VALUES (?, ?, ?, ?)",
        [(version.name, number, key, value) for key, value in version.tags.items()],
    )


def read_marks(home: Path, model: str) -> dict[str, list[str]]:
    """The aliases of a model's versions, as ``@alias``, and their stages."""
    marks: dict[str, list[str]] = {}
    aliases = "SELECT version, alias FROM registered_model_aliases WHERE name = ? ORDER BY alias"
    for row in query(home, aliases, model):
        marks.setdefault(str(row["version"]), []).append(f"@{row['alias']}")
    stages = "SELECT version, current_stage AS stage FROM model_versions WHERE name = ?"
    for row in query(home, stages, model):
        if row["stage"] not in (None, "None"):
            marks.setdefault(str(row["version"]), []).append(row["stage"])
    return marks
