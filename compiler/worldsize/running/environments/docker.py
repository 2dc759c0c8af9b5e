"""Runs steps in containers: the command lines for Docker, and the removal of containers.

Paths are the same inside and outside, and processes have the user's id and the machine's network, so a step
sees what it sees without a container. A container is removed when its step ends; if its runner was killed, it
is removed when a later run starts.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from worldsize.running.model.process import Process

PROGRAM = "docker"
LABEL = "worldsize.runner"
PATIENCE_SECONDS = 20.0
SHARED_MEMORY = "2g"  # of `/dev/shm`: Azure ML's own default


class Container(Struct, frozen=True):
    """What all containers of a step share."""

    image: str  # the image, or the tag of what was built
    name: str  # prefix of their names, unique on the machine
    workdir: Path  # the working folder
    writable: tuple[Path, ...] = ()  # folders that the step may write
    readable: tuple[Path, ...] = ()  # files and folders that it may only read
    user: str = ""  # `uid:gid`
    runner: str = ""  # the runner, see `identify_runner`
    gpus: bool = False  # whether they have the machine's GPUs


def run_in_container(process: Process, container: Container) -> Process:
    """Turn a process into a Docker client that starts it in a container.

    Its home is a folder that the user may write, because the container may not have one. The command line
    only names variables, whose values Docker takes from the client, so that it shows no value.
    """
    env = {"HOME": str(container.workdir), **process.env}
    argv = (
        PROGRAM,
        "run",
        *("--rm", "--init", "--network", "host"),
        *("--name", container_name(process, container)),
        *("--label", f"{LABEL}={container.runner}"),
        *("--workdir", str(container.workdir)),
        *(("--user", container.user) if container.user else ()),
        *("--shm-size", SHARED_MEMORY),
        *(("--gpus", "all") if container.gpus else ()),
        *_list_mounts(container),
        *(word for name in sorted(env) for word in ("--env", name)),
        *("--entrypoint", process.argv[0]),
        container.image,
        *process.argv[1:],
    )
    return replace(process, argv=argv, env=env)


def container_name(process: Process, container: Container) -> str:
    """The name of a process's container."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"{container.name}-{process.name}")


def make_dockerfile(image: str) -> str:
    """A Dockerfile that extends an image by the ``conda.yml`` beside it, as Azure ML does."""
    return (
        f"FROM {image}\n"
        "COPY conda.yml /tmp/conda.yml\n"
        "RUN conda env create --quiet --prefix /azureml-envs/step --file /tmp/conda.yml && conda clean -ay\n"
        "ENV CONDA_PREFIX=/azureml-envs/step PATH=/azureml-envs/step/bin:$PATH\n"
    )


def build_argv(tag: str, context: Path, dockerfile: str = "Dockerfile") -> tuple[str, ...]:
    """The command line that builds an image."""
    return (PROGRAM, "build", "--tag", tag, "--file", str(context / dockerfile), str(context))


def find_docker_fault() -> str | None:
    """Why no container can be started here; None if an engine answers."""
    try:
        done = _run_docker("version", "--format", "{{.Server.Version}}")
    except FileNotFoundError:
        return f"there is no `{PROGRAM}` on this machine"
    except (OSError, subprocess.SubprocessError):
        return f"`{PROGRAM} version` does not answer"
    if done.returncode != 0:
        output = " ".join((done.stderr or done.stdout).split())
        return f"no Docker engine answers: {output}"[:180]
    return None


def remove_containers(names: Iterable[str]) -> None:
    """Remove containers, if they still exist."""
    containers = list(names)
    if containers:
        _run_quietly("rm", "--force", "--volumes", *containers)


def remove_orphans() -> None:
    """Remove the containers of runners on this machine that have died."""
    output_format = f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}'
    listed = _run_quietly("ps", "--all", "--filter", f"label={LABEL}", "--format", output_format)
    remove_containers(find_orphans(listed.splitlines(), is_runner_alive))


def find_orphans(lines: Sequence[str], lives: Callable[[str], bool]) -> list[str]:
    """The containers whose runner does not live, from lines of id and runner."""
    pairs = [line.split(" ", 1) for line in lines if " " in line]
    return [container for container, runner in pairs if not lives(runner)]


def identify_runner() -> str:
    """Identify this runner: machine, process id, and start time, because ids are reused."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{pid}/{_read_start_time(pid)}"


def is_runner_alive(runner: str) -> bool:
    """Whether a runner is alive; one of another machine is assumed to be."""
    host, _, rest = runner.partition("/")
    pid, _, started = rest.partition("/")
    return host != socket.gethostname() or (pid.isdigit() and started == _read_start_time(int(pid)) != "")


def _list_mounts(container: Container) -> Iterable[str]:
    for path in (*container.writable, *container.readable):
        quoted = [f'"{part}"' if "," in part else part for part in (f"source={path}", f"target={path}")]
        read_only = [] if path in container.writable else ["readonly"]
        yield from ("--mount", ",".join(["type=bind", *quoted, *read_only]))


def _read_start_time(pid: int) -> str:
    """The start time of a process in the system's units; empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        try:
            os.kill(pid, 0)
        except OSError:
            return ""
        return "running"  # a system without /proc


def _run_docker(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [PROGRAM, *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def _run_quietly(*words: str) -> str:
    try:
        return _run_docker(*words).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
