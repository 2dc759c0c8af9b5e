"""MLflow's database of a home: its schema, how it is made, and connections to it.

Neither MLflow nor its server is needed to look at it. The tables are those of MLflow 3, which a test holds
against the installed version (``mlflow/store/tracking/dbmodels``, ``mlflow/store/model_registry/dbmodels``).
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import sqlite3
import time
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from urllib.parse import quote

from worldsize.base import untrusted

DATABASE = "mlflow.db"
LOCK_SECONDS = 60.0  # while another run prepares the database
MAX_ROWS = 1_000_000  # of one query
READ_SECONDS, WRITE_SECONDS = 10.0, 30.0  # how long one waits for another's transaction
_MIGRATIONS = ("store", "db_migrations", "versions")
_REVISION = re.compile(r'^(revision|down_revision) = "(\w+)"$', re.MULTILINE)


class SchemaError(sqlite3.DatabaseError):
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
    current = _read_revision(database)
    if package is None or current is None:
        return
    revisions, replaced = set[str](), set[str]()
    for migration in list_migrations(package):
        for kind, revision in _REVISION.findall(untrusted.read_text(migration)):
            (revisions if kind == "revision" else replaced).add(revision)
    if not revisions or current in revisions - replaced:
        return
    if current in revisions:
        raise SchemaError(
            f"an older MLflow wrote `{database}`: `mlflow db upgrade sqlite:///{database}` converts it"
        )
    raise SchemaError(
        f"a newer MLflow than the installed one wrote `{database}`: install that, or use another --home"
    )


def _read_revision(database: Path) -> str | None:
    """The revision of a database's schema; None if there is none, or if it cannot be read now."""
    with _open_to_read(database) as connection:
        if connection is None:
            return None
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError:  # it is locked, or has no schema yet
            return None
    return None if row is None else str(row[0])


@contextlib.contextmanager
def prepared_database(home: Path) -> Iterator[None]:
    """Hold a home's lock while the database is there; the kernel releases the lock of a process that dies.

    Raises:
        SchemaError: The database is that of another version of MLflow.
        TimeoutError: Another process holds the lock for long.
        UnreadableError: The database or the lock is not a file.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    untrusted.check_file(home / "mlflow.lock")
    with (home / "mlflow.lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    seconds = f"{LOCK_SECONDS:.0f} s"
                    raise TimeoutError(f"another run prepares its database for {seconds}") from None
                time.sleep(0.05)
        _prepare(home)
        yield


def _prepare(home: Path) -> None:
    """Create the database under another name, so that a killed process leaves no incomplete one."""
    if (home / DATABASE).exists():
        check_schema(home / DATABASE)
        return
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    for left in home.glob(f"{DATABASE}.part*"):
        left.unlink()
    part = home / f"{DATABASE}.part"
    try:
        # With the default experiment, whose artifacts would be in the working folder otherwise.
        SqlAlchemyStore(f"sqlite:///{part}", (home / "artifacts").absolute().as_uri())
    except BaseException:  # the disk may be full: free what was written
        for left in home.glob(f"{DATABASE}.part*"):
            left.unlink(missing_ok=True)
        raise
    part.replace(home / DATABASE)


@contextlib.contextmanager
def _open_to_read(database: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection that only reads; None where there is no file."""
    untrusted.check_file(database)
    if not database.exists():
        yield None
        return
    if database.with_name(f"{database.name}-journal").exists():
        # A process that was killed as it wrote leaves half a change, which only a writer may undo.
        with contextlib.suppress(sqlite3.OperationalError), _connect(database, "rw") as connection:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    with _connect(database, "ro") as connection:
        yield connection


@contextlib.contextmanager
def _connect(database: Path, mode: str) -> Iterator[sqlite3.Connection]:
    uri = f"file:{quote(str(database.absolute()))}?mode={mode}"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=READ_SECONDS)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


@contextlib.contextmanager
def open_to_write(home: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on the database of a home, which exists."""
    connection = sqlite3.connect(home / DATABASE, timeout=WRITE_SECONDS)
    connection.row_factory = sqlite3.Row
    with contextlib.closing(connection), connection:
        yield connection


def query(home: Path, text: str, *values: str) -> list[sqlite3.Row]:
    """The rows of a query, at most :data:`MAX_ROWS`; none before MLflow has made the table."""
    with untrusted.passed_over(), _open_to_read(home / DATABASE) as connection:
        if connection is None:
            return []
        try:
            return connection.execute(text, values).fetchmany(MAX_ROWS)
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
    return []
