"""Makes MLflow's database of a home, once among the processes that need it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from worldsize.base import untrusted
from worldsize.running.environments.mlflow_schema import check_schema

DATABASE = "mlflow.db"
LOCK_SECONDS = 60.0  # while another run prepares the database


@contextlib.contextmanager
def prepared_database(home: Path) -> Iterator[None]:
    """Hold a home's lock while the database is there; the kernel releases the lock of a process that dies.

    Raises:
        SchemaError: The database is that of another version of MLflow.
        TimeoutError: Another process holds the lock for long.
        UnreadableError: The database or the lock is not a file.
    """
    import fcntl  # POSIX only

    deadline = time.monotonic() + LOCK_SECONDS
    untrusted.check_file(home / "mlflow.lock")
    with (home / "mlflow.lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError(
                        f"another run prepares its database for {LOCK_SECONDS:.0f} s"
                    ) from None
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
