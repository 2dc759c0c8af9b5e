"""Fixtures that run `shard_data` without waiting for a Python and its libraries to start.

Each call is a fork of one small process that has them loaded (`tests/components/warm_start.py`): it parses
the component's own command line, ends with its exit status, and neither hangs nor fills the tests' process.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests/components/warm_start.py"
COMPONENT = ROOT / "components/shard_data/component.yml"
# Its own modules, and what they import when they need it.
LIBRARIES = ["shard", "pyarrow.parquet", "PIL.PngImagePlugin", "PIL.JpegImagePlugin"]
MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10  # of getrusage's unit
Snapshots = Callable[[str], Path]


def render_command(command: str, values: dict[str, Any]) -> str:
    """Fill a component's command in as Azure ML does: optional sections vanish, literals are `str(value)`."""

    def section(match: re.Match[str]) -> str:
        names = re.findall(r"\$\{\{inputs\.(\w+)\}\}", match[1])
        return match[1] if all(name in values for name in names) else ""

    command = re.sub(r"\$\[\[(.*?)\]\]", section, command, flags=re.DOTALL)
    return re.sub(r"\$\{\{(?:inputs|outputs)\.(\w+)\}\}", lambda match: str(values[match[1]]), command)


def read_defaults(described: dict[str, Any]) -> dict[str, Any]:
    """The defaults of a component's inputs."""
    return {name: port["default"] for name, port in described["inputs"].items() if "default" in port}


@dataclass(frozen=True)
class Ended:
    """How a call ended, what it said, and what it took: processor seconds, and the most memory in MiB.

    A fork's memory counts the libraries that it found loaded, as a process counts those that it loads.
    """

    returncode: int
    stdout: str
    stderr: str
    seconds: float
    memory: int


def call_fork(
    server: Path,
    arguments: list[str],
    *,
    cwd: Path,
    env: dict[str, str],
    limits: tuple[int, int],
    timeout: float,
) -> Ended:
    """Run `arguments` in a fork of the server; it is killed where it takes longer than `timeout` seconds."""
    request = {"arguments": arguments, "cwd": str(cwd), "env": env, "limits": limits}
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.settimeout(timeout)
        connection.connect(str(server))
        socket.send_fds(connection, [b" "], [nothing.fileno(), out.fileno(), err.fileno()])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile() as answers:  # it dies with this connection
            answers.readline()
            status, seconds, memory = answers.readline().split()
        return Ended(int(status), _read(out), _read(err), float(seconds), int(memory) // MIB)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


@pytest.fixture(scope="session")
def shard_server(snapshots: Snapshots, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a process that has shard_data's libraries loaded and has never used them."""
    absent = [name for name in ("numpy", "pandas", "PIL", "pyarrow") if find_spec(name) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)}: not installed")
    place = tmp_path_factory.mktemp("shard_server") / "socket"
    command = [sys.executable, str(SERVER), "serve", str(place), *LIBRARIES]
    env = os.environ | {"PYTHONPATH": str(snapshots("shard_data"))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield place
        server.terminate()


@pytest.fixture(scope="session")
def shard(snapshots: Snapshots, shard_server: Path) -> Callable[..., Ended]:
    """Run shard_data's own command line: `shard(data=…, shards=…)`; it may write files of `largest` bytes."""
    described = yaml.safe_load(COMPONENT.read_text(encoding="utf-8"))
    defaults, code = read_defaults(described), snapshots("shard_data")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*, timeout: float = 60, largest: int | None = None, **values: Any) -> Ended:
        arguments = shlex.split(render_command(described["command"], defaults | values))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE) if largest is None else (largest, largest)
        return call_fork(
            shard_server, [sys.executable, *arguments[1:]], cwd=code, env=env, limits=limits, timeout=timeout
        )

    return run


# Between this process and the measured one stands a small one: a process counts the memory of the one that
# it was forked from as its own.
MEASURE = """
import os, resource, sys, time
child = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


@pytest.fixture
def measure_process(snapshots: Snapshots) -> Callable[[Path, Path], Ended]:
    """Shards a folder in a process of its own."""
    code = snapshots("shard_data")
    return lambda data, out: _measure_process(code, data, out)


def _measure_process(code: Path, data: Path, out: Path) -> Ended:
    command = [sys.executable, "-S", "-c", MEASURE, "shard.py", "--data", str(data), "--shards", str(out)]
    with subprocess.Popen(
        command,
        cwd=code,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        late = threading.Timer(60, os.killpg, (child.pid, signal.SIGKILL))
        late.start()
        measured, said = child.communicate()
        late.cancel()
    *lines, last = measured.splitlines()
    status, seconds, memory = last.split()
    return Ended(int(status), "\n".join(lines), said, float(seconds), int(memory) // MIB)
