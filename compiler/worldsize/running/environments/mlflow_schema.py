"""Which schema of its database an MLflow has, by its list of migrations and without importing it."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from importlib import util
from pathlib import Path
from urllib.parse import quote

from worldsize.base import untrusted

_MIGRATIONS = ("store", "db_migrations", "versions")
_REVISION = re.compile(r'^(revision|down_revision) = "(\w+)"$', re.MULTILINE)


class SchemaError(Exception):
    """The installed MLflow cannot open a database, because that of another version has written it."""


def list_migrations(package: Path) -> list[Path]:
    """The migrations of the MLflow in a folder."""
    return sorted(package.joinpath(*_MIGRATIONS).glob("*.py"))


def find_mlflow() -> Path | None:
    """The folder of the installed MLflow."""
    spec = util.find_spec("mlflow")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def check_schema(database: Path) -> None:
    """Check that the installed MLflow can open a database, if there is one.

    Raises:
        SchemaError: Its schema is older or newer than that of the installed MLflow.
        UnreadableError: It is not a file.
        sqlite3.DatabaseError: It is damaged.
    """
    package = find_mlflow()
    found = _read_revision(database)
    if package is None or found is None:
        return
    revisions, replaced = set[str](), set[str]()
    for migration in list_migrations(package):
        for kind, revision in _REVISION.findall(untrusted.read_text(migration)):
            (revisions if kind == "revision" else replaced).add(revision)
    if not revisions or found in revisions - replaced:
        return
    if found in revisions:
        raise SchemaError(
            f"an older MLflow wrote `{database}`: `mlflow db upgrade sqlite:///{database}` converts it"
        )
    raise SchemaError(
        f"a newer MLflow than the installed one wrote `{database}`: install that, or use another --home"
    )


def _read_revision(database: Path) -> str | None:
    """The revision of a database's schema; None if there is none, or if it cannot be read now."""
    untrusted.check_file(database)  # SQLite would wait for a pipe
    if not database.exists():
        return None
    uri = f"file:{quote(str(database.absolute()))}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError:  # it is locked, or has no schema yet
            return None
    return None if row is None else str(row[0])
