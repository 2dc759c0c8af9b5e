"""Fixtures that run `shard_data` without waiting for a Python and its libraries to start.

Each call is a fork of one small process that has them loaded (`tests/components/warm_start.py`): it parses
the component's own command line, ends with its exit status, and neither hangs nor fills the tests' process.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from warm_servers import MIB, Ended, WarmServers, call_fork

COMPONENT = Path(__file__).parents[2] / "components/shard_data/component.yml"
# Its own modules, and what they import when they need it.
LIBRARIES = ["shard", "pyarrow.parquet", "PIL.PngImagePlugin", "PIL.JpegImagePlugin"]
DIGITS = ["sklearn.datasets"]
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


@pytest.fixture(scope="session")
def find_shard_server(
    snapshots: Snapshots, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[bool], Path]]:
    """The socket of a process that has shard_data's libraries loaded, and perhaps those of the digits."""
    absent = [name for name in ("numpy", "pandas", "PIL", "pyarrow") if find_spec(name) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)}: not installed")
    servers = WarmServers(tmp_path_factory.mktemp("shard_servers"))
    env = {"PYTHONPATH": str(snapshots("shard_data"))}

    def find(digits: bool) -> Path:
        # The digits' library takes memory, which others are measured by.
        return servers.find(DIGITS if digits else LIBRARIES, base=LIBRARIES if digits else (), env=env)

    yield find
    servers.stop()


@pytest.fixture(scope="session")
def shard(snapshots: Snapshots, find_shard_server: Callable[[bool], Path]) -> Callable[..., Ended]:
    """Run shard_data's own command line: `shard(data=…, shards=…)`; it may write files of `largest` bytes."""
    described = yaml.safe_load(COMPONENT.read_text(encoding="utf-8"))
    defaults, code = read_defaults(described), snapshots("shard_data")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*, timeout: float = 60, largest: int | None = None, **values: Any) -> Ended:
        arguments = shlex.split(render_command(described["command"], defaults | values))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE) if largest is None else (largest, largest)
        server = find_shard_server(values.get("source") == "builtin:digits")
        command = [sys.executable, *arguments[1:]]
        return call_fork(server, command, cwd=code, env=env, limits=limits, timeout=timeout)

    return run


@pytest.fixture(scope="session")
def built_in_shards(
    shard: Callable[..., Ended], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Shards of a builtin source, written once by shard_data itself."""
    made: dict[str, Path] = {}

    def shards(source: str) -> Path:
        if source not in made:
            made[source] = tmp_path_factory.mktemp(source)
            done = shard(source=f"builtin:{source}", shards=made[source], shard_count=4)
            assert done.returncode == 0, done.stderr
        return made[source]

    return shards


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
