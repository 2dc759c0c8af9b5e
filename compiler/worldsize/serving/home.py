"""The files of a workspace: everything below ``<home>/serve``, beside the runs and MLflow's database."""

from __future__ import annotations

import contextlib
import fcntl
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from worldsize.base.whole_file import read_private, write_whole
from worldsize.running.model.folder import ignore_in_git

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
_SECRET = re.compile(rb"[A-Za-z0-9_-]{43}")  # 32 bytes, as `secrets.token_urlsafe` writes them


class HomeInUseError(Exception):
    """Another server uses the home."""


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one workspace; ``root`` is the home that ``worldsize run`` uses too."""

    root: Path

    @property
    def state(self) -> Path:
        """The folder of what only the server uses."""
        return self.root / "serve"

    @property
    def database(self) -> Path:
        """The workspace's SQLite database."""
        return self.state / "workspace.db"

    @property
    def blobs(self) -> Path:
        """One folder for each storage container."""
        return self.state / "blobs"

    @property
    def jobs(self) -> Path:
        """One folder for each submitted job, with the YAML that it became."""
        return self.state / "jobs"

    @property
    def runs(self) -> Path:
        """The folders of the runs; that of a job bears its name."""
        return self.root / "runs"

    @property
    def artifacts(self) -> Path:
        """The artifacts of MLflow's runs."""
        return self.root / "artifacts"

    def make(self) -> None:
        """Create the folders, private to the user."""
        for folder in (self.root, self.state, self.blobs, self.jobs, self.runs):
            folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        ignore_in_git(self.root)

    def lock(self) -> TextIO:
        """Hold the home until the returned file is closed or the process ends.

        Raises:
            HomeInUseError: Another server holds it.
        """
        file = (self.state / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise HomeInUseError(f"another server uses `{self.root}`") from None
        return file

    def secret(self, name: str) -> str:
        """A random secret of this home for a purpose such as ``token``, made at its first use.

        Raises:
            NotAsWrittenError: Its file is not what was written: whoever knew why could be let in.
            OSError: It cannot be read or written.
        """
        path = self.state / f"{name}.secret"
        if (kept := read_private(path, _SECRET)) is None:
            with contextlib.suppress(FileExistsError):  # another process was faster
                write_whole(path, secrets.token_urlsafe(32).encode(), mode=PRIVATE_FILE, new=True)
            kept = read_private(path, _SECRET)
            assert kept is not None
        return kept.decode()
