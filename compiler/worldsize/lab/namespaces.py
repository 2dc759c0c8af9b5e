"""The nodes of running steps: made before their processes start, and held until these have ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.lab import network
from worldsize.lab.network import (
    UNSHAPED,
    Link,
    Node,
    downlink_commands,
    make_nodes,
    plug_command,
    uplink_commands,
)
from worldsize.running.launch.reserve import NODES_PREFIX, scratch_folder
from worldsize.running.model.process import Call

MAKER = Path(__file__).with_name("maker.py")
ENTER = Path(__file__).with_name("enter.py")
PATIENCE_SECONDS = 60.0  # for the next message of the maker
STOPPED_SECONDS = 3.0  # of silence before the maker is continued, in case it is stopped
KILL_SECONDS = 5.0
INSTALL = "Debian, Ubuntu: `apt-get install iproute2`"


class LostError(OSError):
    """The program that makes namespaces was killed."""


class Abilities(Struct, frozen=True):
    """What this machine can emulate: None for a part that it can, else the reason why not."""

    nodes: tuple[str, str] | None = None
    rate: str | None = None
    delay: str | None = None


def probe_namespaces() -> Abilities:
    """Try what is needed in temporary namespaces."""
    if sys.platform != "linux":
        return Abilities(("`--nodes namespaces` needs Linux", "run it there, or remove the option"))
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    if missing:
        return Abilities((f"`--nodes namespaces` needs `{missing[0]}`, which is not installed", INSTALL))
    if os.geteuid() != 0:
        return Abilities(("`--nodes namespaces` needs root", "run it as root, or remove the option"))
    try:
        answer = _query_maker()
    except OSError as error:
        answer = {"fault": error.strerror or str(error)}
    can = answer.get("can") or {"nodes": answer.get("fault", "it did not answer")}
    if can["nodes"]:
        help_ = "in a container, start it with `--privileged`"
        return Abilities((f"`--nodes namespaces` is not possible here: {can['nodes']}", help_))
    return Abilities(None, can["rate"], can["delay"])


def _query_maker() -> dict[str, Any]:
    """Ask the maker what this machine can do; if it is killed, ask again."""
    try:
        return _read_answer()
    except LostError:
        return _read_answer()


def _read_answer() -> dict[str, Any]:
    with _start_maker() as maker:
        return dict(json.loads(maker.hear()[0]))


class StepNetwork(Struct):
    """The nodes of one running step. ``descriptors`` keep the namespaces alive, by name."""

    nodes: tuple[Node, ...]
    folder: Path
    descriptors: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def table(self) -> Path:
        """The file in which ``enter.py`` finds a node."""
        return self.folder / "nodes.json"

    def prefix(self, node: str) -> tuple[str, ...]:
        """The command prefix that starts a program on a node."""
        return _make_prefix(str(self.table), node)

    def pull(self, node: Node, *, plug: bool = False) -> None:
        """Cut a node's link, or restore it."""
        command = [*self.prefix("switch"), "ip", *plug_command(node, plugged=plug)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        if done.returncode != 0:
            raise OSError(0, f"the link of {node.name} cannot be changed: {done.stderr.strip()}")

    def kill(self, node: Node) -> None:
        """Kill everything that runs on a node, until nothing does."""
        namespace = f"net:[{os.fstat(self.descriptors[node.name]['net']).st_ino}]"
        kill_processes(lambda pid: os.readlink(f"/proc/{pid}/ns/net") == namespace)  # noqa: PTH115

    def close(self) -> None:
        """Release the namespaces."""
        for descriptors in self.descriptors.values():
            for descriptor in descriptors.values():
                os.close(descriptor)
        self.descriptors.clear()


def kill_processes(is_chosen: Callable[[int], bool]) -> None:
    """Kill the processes that a test of their pids chooses, until there is none."""
    deadline = time.monotonic() + KILL_SECONDS
    killed = True
    while killed and time.monotonic() < deadline:
        killed = False
        for pid in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]:
            with contextlib.suppress(OSError):
                if is_chosen(pid):
                    killed = True
                    os.kill(pid, signal.SIGKILL)


def _make_prefix(table: str, node: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(ENTER), table, node)


def preview_nodes(call: Call) -> Call:
    """The call with the nodes that it would have."""
    return call if call.instance_count < 2 else _place_on_nodes(call, "{nodes}")


def _place_on_nodes(call: Call, table: str) -> Call:
    joined = make_nodes(call.instance_count)
    return replace(
        call,
        hosts=tuple(node.address for node in joined),
        prefixes=tuple(_make_prefix(table, node.name) for node in joined),
    )


class Namespaces:
    """Gives every instance of a distributed step a network namespace; ``links`` are by step."""

    def __init__(self, links: Mapping[str, Link] | None = None) -> None:
        self._links = links or {}
        self.sites: dict[str, StepNetwork] = {}  # of the steps that run

    @contextlib.contextmanager
    def place(self, call: Call) -> Iterator[Call]:
        """The call with nodes for its instances; a single instance stays on this machine."""
        if call.instance_count < 2:
            yield call
            return
        with contextlib.ExitStack() as stack:
            site = StepNetwork(
                make_nodes(call.instance_count), stack.enter_context(scratch_folder(NODES_PREFIX))
            )
            stack.callback(site.close)
            _make_network(site, self._links.get(call.step, UNSHAPED))
            self.sites[call.step] = site
            stack.callback(self.sites.pop, call.step)
            yield _place_on_nodes(call, str(site.table))


def _make_network(site: StepNetwork, link: Link) -> None:
    hosts, plan = site.folder / "hosts", site.folder / "plan.json"
    hosts.write_text(network.hosts_file(site.nodes), encoding="utf-8")
    hosts.chmod(0o644)
    plan.write_text(json.dumps(make_plan(site.nodes, hosts, link)), encoding="utf-8")
    try:
        _receive_all(site, plan)
    except LostError:  # it was killed from outside; closing the descriptors removes what it made
        site.close()
        _receive_all(site, plan)
    site.table.write_text(json.dumps(_write_table(site)), encoding="utf-8")


def _receive_all(site: StepNetwork, plan: Path) -> None:
    with _start_maker(str(plan)) as maker:
        while _receive_part(site, maker):
            pass


def make_plan(joined: tuple[Node, ...], hosts: Path, link: Link) -> dict[str, Any]:
    """The plan for the maker."""
    return {
        "switch": network.switch_commands(),
        "hosts": str(hosts),
        "nodes": [
            {
                "name": node.name,
                "ip": network.node_commands(node, "{switch}"),
                "tc": uplink_commands(link),
                "port": network.port_commands(node),
                "port_tc": downlink_commands(node, link),
            }
            for node in joined
        ],
    }


class Maker(Struct, frozen=True):
    """The program that makes namespaces, and the socket to it."""

    process: subprocess.Popen[bytes]
    line: socket.socket

    def hear(self) -> tuple[bytes, list[int]]:
        """The next message, and the descriptors that came with it.

        Raises:
            OSError: It does not answer, or was killed.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not select.select([self.line], [], [], STOPPED_SECONDS)[0]:
            if time.monotonic() >= deadline:
                raise TimeoutError(0, "the process that makes its nodes does not answer")
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGCONT)  # also its child that becomes a node
        message, descriptors, _, _ = socket.recv_fds(self.line, 1 << 16, 3)
        if not message:
            raise LostError(0, "the process that makes its nodes was killed")
        return message, descriptors


@contextlib.contextmanager
def _start_maker(*arguments: str) -> Iterator[Maker]:
    """Start the program that makes namespaces; it ends with the context."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(MAKER), *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # its own process group, which is killed as one
            )
        try:
            yield Maker(process, ours)
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _receive_part(site: StepNetwork, maker: Maker) -> bool:
    """Receive one namespace; False when all are made."""
    message, descriptors = maker.hear()
    answer = json.loads(message)
    if "made" in answer:
        kinds = ("net", "uts", "mnt")[: len(descriptors)]
        site.descriptors[answer["made"]] = dict(zip(kinds, descriptors, strict=True))
    elif "fault" in answer:
        raise OSError(0, f"its nodes cannot be made: {answer['fault']}")
    return "done" not in answer


def _write_table(site: StepNetwork) -> dict[str, Any]:
    """The namespaces and variables of each node, by name and address; write the agent for mpirun."""
    agent = site.folder / "ssh"
    words = " ".join(
        f"'{word}'" for word in (sys.executable, "-I", "-S", str(ENTER), "--shell", str(site.table))
    )
    agent.write_text(f'exec {words} "$@"\n', encoding="utf-8")
    table = {}
    for name, descriptors in site.descriptors.items():
        paths = {kind: f"/proc/{os.getpid()}/fd/{number}" for kind, number in descriptors.items()}
        table[name] = {"namespaces": paths, "env": {}}
    for node in site.nodes:
        temporary = site.folder / node.name
        temporary.mkdir()
        # Like a machine with ssh without a password; the names for Open MPI 5 and 4.
        agents = dict.fromkeys(("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"), f"sh {agent}")
        table[node.name]["env"] = {"TMPDIR": str(temporary), **agents}
        table[node.address] = table[node.name]
    return table
