"""`worldsize serve` as a process of its own home, and the environment of a client in it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from worldsize.serving.database import Database
from worldsize.serving.home import Home
from worldsize.serving.workspace import Endpoints, Workspace

START_SECONDS = 90  # on a machine with more to do than it has cores
SERVE = [sys.executable, "-m", "worldsize", "serve"]
_PAGE = re.compile(r"page is (http://127\.0\.0\.1:(\d+))/\?token=(\S+)")


def make_workspace(folder: Path, port: int = 12345) -> Workspace:
    """A workspace without a server, in a new home in ``folder``."""
    home = Home(folder / ".worldsize")
    home.make()
    return Workspace(home, Database(home.database), Endpoints(f"http://127.0.0.1:{port}"), folder)


@dataclass
class Served:
    """A running server."""

    process: subprocess.Popen[str]
    folder: Path  # the server's working folder
    home: Path
    address: str  # http://127.0.0.1:PORT
    token: str  # opens the page
    environment: dict[str, str]  # of a client: the whole of it

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def run(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        """Run a client's program, such as `run(sys.executable, "-c", "…")`, and return what it wrote."""
        settings = {"timeout": 110, "text": True, "capture_output": True, "cwd": self.folder, **more}
        return subprocess.run(list(words), env=self.environment, check=False, **settings)  # type: ignore[call-overload]

    def python(self, code: str, *words: str) -> str:
        """Run Python code as a client; its standard output, once it has ended well."""
        result = self.run(sys.executable, "-c", code, *words)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop the server and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)


def start(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    variables: bool = True,
    program: Sequence[str] = SERVE,
) -> Served:
    """Start a server in ``folder``, with its home there, and wait until it answers.

    Without ``variables`` the environment of a client is not asked for.
    """
    home = folder / ".worldsize"
    base = dict(os.environ if environment is None else environment)
    words = [*program, "--home", str(home), *options]
    process = subprocess.Popen(
        words, cwd=folder, env=base, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if matched := _PAGE.search(line):
            break
    else:
        raise AssertionError(f"the server did not start: {said}")
    client = client_environment(folder, home, base) if variables else {}
    return Served(process, folder, home, matched[1], matched[3], client)


@contextlib.contextmanager
def serving(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = SERVE,
) -> Iterator[Served]:
    """A server that is stopped when the block ends."""
    served = start(folder, *options, environment=environment, program=program)
    try:
        yield served
    finally:
        try:
            served.stop()
        except subprocess.TimeoutExpired:
            served.process.kill()
            served.process.wait()
        if served.process.stdout is not None:
            served.process.stdout.close()


def client_environment(folder: Path, home: Path, base: Mapping[str, str]) -> dict[str, str]:
    """The environment that a shell has after it evaluated what `--print-env` prints."""
    exports = subprocess.run(
        [*SERVE, "--home", str(home), "--print-env"],
        cwd=folder,
        env=dict(base),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=True,
    ).stdout
    show = f"{exports}\n{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    shell = subprocess.run(["sh", "-c", show], env=dict(base), capture_output=True, text=True, check=True)
    environment: dict[str, str] = json.loads(shell.stdout)
    return environment
