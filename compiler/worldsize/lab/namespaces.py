"""The nodes of running steps: made before their processes start, and held until these have ended."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.base.problem import HelpfulError
from worldsize.running.launch.reserve import NODES_PREFIX, scratch_folder
from worldsize.running.model.emulation import Network
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
    with contextlib.suppress(LostError):
        return _read_answer()
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

    def pull(self, node: Node, *, plug: bool = False) -> None:
        """Cut a node's link, or restore it."""
        words = ("ip", "link", "set", "dev", node.name, "up" if plug else "down")
        command = [*_make_prefix(str(self.table), SWITCH), *words]
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
    hosts.write_text(hosts_file(site.nodes), encoding="utf-8")
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
    """The plan for the maker. Delay and loss are applied once, when a packet leaves its sender."""
    return {
        "switch": [("link", "add", SWITCH, "type", "bridge"), ("link", "set", "dev", SWITCH, "up")],
        "hosts": str(hosts),
        "nodes": [
            {
                "name": node.name,
                "ip": [
                    ("link", "set", "dev", "lo", "up"),
                    ("link", "add", DEVICE, "type", "veth", "peer", "name", node.name, "netns", "{switch}"),
                    ("address", "add", f"{node.address}/{NETWORK.prefixlen}", "dev", DEVICE),
                    ("link", "set", "dev", DEVICE, "up"),
                ],
                "tc": shaping_commands(DEVICE, link),
                "port": [("link", "set", "dev", node.name, "master", SWITCH, "up")],
                "port_tc": shaping_commands(node.name, Link(link.bits_per_s)),
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


# The processor moves the data of veth pairs: two cores reach about 11 Gbit/s between two namespaces (measured
# with 1 MiB writes over one TCP connection), so a higher rate would have no effect.
MAX_BITS_PER_S = 10e9
MIN_BITS_PER_S = 8e3
MAX_DELAY_S = 60.0
BURST_S = 1e-3  # of sending at full rate: a kernel with HZ=1000 fills the bucket at this interval
MIN_BURST_BYTES = 128 * 1024  # two TCP segments of 64 KiB; a smaller burst would split them
QUEUE_S = 0.05  # of data that a full queue holds before it drops packets
PACKET_BYTES = 1500

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)bit(?:/s)?", re.IGNORECASE)
_DELAY = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)", re.IGNORECASE)
_LOSS = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}

_HELP = (
    "write a rate, a delay and a loss, each at most once, such as `1gbit`, `25gbit,50us` or `1gbit,2ms,0.1%`"
)
NETWORK = ipaddress.ip_network("10.213.0.0/16")  # private (RFC 1918), and rarely used
DEVICE = "eth0"
SWITCH = "switch"
MAX_NODES = 1000  # a bridge has 1023 ports


class OptionError(HelpfulError):
    """An option is malformed, or asks for what cannot be emulated."""


class Link(Struct, frozen=True):
    """The limits of a node's link in each direction. None or 0 is unlimited."""

    bits_per_s: float | None = None
    delay_s: float = 0.0  # from one node to another
    loss: float = 0.0  # share of packets that do not arrive

    def __str__(self) -> str:
        parts = [format_rate(self.bits_per_s)] if self.bits_per_s is not None else []
        parts += [f"{format_delay(self.delay_s)} delay"] if self.delay_s else []
        parts += [f"{100 * self.loss:.3g} % loss"] if self.loss else []
        return ", ".join(parts) or "no limit"


UNSHAPED = Link()


def parse_link(text: str) -> Link:
    """Parse ``--link``; ``none`` does not shape links.

    Raises:
        OptionError: It is malformed or impossible.
    """
    if text.strip().lower() == "none":
        return UNSHAPED
    parts: dict[str, float] = {}
    for word in (part.strip() for part in text.split(",")):
        name, value = _parse_part(word, text)
        if name in parts:
            raise OptionError(f"`--link {text}` gives its {name} twice", _HELP)
        parts[name] = value
    return Link(parts.get("rate"), parts.get("delay", 0.0), parts.get("loss", 0.0))


def _parse_part(word: str, text: str) -> tuple[str, float]:
    if matched := _RATE.fullmatch(word):
        value = float(matched[1]) * _PREFIX[matched[2].lower()]
        if value < MIN_BITS_PER_S:
            raise OptionError(f"`--link {text}`: a rate of `{word}` moves nothing", "write at least `8kbit`")
        return "rate", value
    if matched := _DELAY.fullmatch(word):
        value = float(matched[1]) * _SECONDS[matched[2].lower()]
        if value > MAX_DELAY_S:
            raise OptionError(
                f"`--link {text}`: a delay of `{word}` is too long", f"write at most `{MAX_DELAY_S:g}s`"
            )
        return "delay", value
    if matched := _LOSS.fullmatch(word):
        value = float(matched[1]) / 100
        if value >= 1:
            raise OptionError(
                f"`--link {text}` loses every packet", "to cut a link, use `--drop-link node1@30s`"
            )
        return "loss", value
    subject = f"`--link {text}`: `{word}`" if word else f"`--link {text}` has an empty part, which"
    raise OptionError(f"{subject} is not a rate, delay or loss", _HELP)


def fit_link(
    option: Link | None, network: Network | None, *, can_shape: bool = True, can_delay: bool = True
) -> tuple[Link, str]:
    """Fit the link that ``--link`` asks for, or that of the VM size, to this kernel; and describe it.

    Rates are limited by ``tbf``, delay and loss are made by ``netem``.
    """
    if option is not None:
        requested, source = option, "`--link`"
    else:
        requested, source = (Link(network.gbps * 1e9), network.title) if network else (UNSHAPED, "")
    link, missing = requested, []
    if link.bits_per_s is not None and link.bits_per_s > MAX_BITS_PER_S:
        missing.append(f"{format_rate(link.bits_per_s)} is more than this machine's processor moves")
        link = replace(link, bits_per_s=MAX_BITS_PER_S)
    if link.bits_per_s is not None and not can_shape:
        missing.append("this kernel has no `tbf`, which limits rates")
        link = replace(link, bits_per_s=None)
    if (link.delay_s or link.loss) and not can_delay:
        missing.append("this kernel has no `netem`, which delays and loses packets")
        link = replace(link, delay_s=0.0, loss=0.0)
    description = f"links of {link}" if link != UNSHAPED else "links that are not limited"
    if source and not missing:
        description += f" ({source})"
    elif missing:
        description += f" instead of {requested} ({source}): {'; '.join(missing)}"
    return link, description


def shaping_commands(device: str, link: Link) -> tuple[tuple[str, ...], ...]:
    """The commands for ``tc`` that shape what a device sends: ``netem`` at the root, ``tbf`` in it."""
    commands: list[tuple[str, ...]] = []
    parent: tuple[str, ...] = ("root",)
    if link.delay_s or link.loss:
        impaired = ("delay", f"{max(1, round(link.delay_s * 1e6))}us") if link.delay_s else ()
        lost = ("loss", f"{100 * link.loss:.6g}%") if link.loss else ()
        # As many packets as the link holds by its delay and queue.
        bits = (link.bits_per_s or MAX_BITS_PER_S) * (link.delay_s + QUEUE_S)
        limit = ("limit", str(max(1000, round(bits / 8 / PACKET_BYTES))))
        commands.append(
            ("qdisc", "add", "dev", device, *parent, "handle", "1:", "netem", *limit, *impaired, *lost)
        )
        parent = ("parent", "1:1", "handle", "10:")
    if link.bits_per_s is not None:
        burst = max(MIN_BURST_BYTES, round(link.bits_per_s / 8 * BURST_S))
        bucket = f"rate {round(link.bits_per_s)}bit burst {burst}b latency {QUEUE_S * 1e3:g}ms".split()
        commands.append(("qdisc", "add", "dev", device, *parent, "tbf", *bucket))
    return tuple(commands)


def format_rate(bits_per_s: float) -> str:
    """``25 Gbit/s``."""
    prefix, size = next(
        (prefix for prefix in (("G", 1e9), ("M", 1e6), ("k", 1e3)) if bits_per_s >= prefix[1]), ("", 1)
    )
    return f"{bits_per_s / size:,.4g} {prefix}bit/s"


def format_delay(seconds: float) -> str:
    """``50 µs``."""
    if seconds >= 1:
        return f"{seconds:.4g} s"
    return f"{seconds * 1e3:.4g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.4g} µs"


class Node(Struct, frozen=True):
    """One instance of a step as a machine."""

    number: int

    @property
    def name(self) -> str:
        """Its host name, and the name of its port of the switch."""
        return f"node{self.number}"

    @property
    def address(self) -> str:
        """Its address."""
        return str(NETWORK[self.number + 1])


def make_nodes(count: int) -> tuple[Node, ...]:
    """The nodes of a step.

    Raises:
        ValueError: ``count`` is not from 1 to :data:`MAX_NODES`.
    """
    if not 1 <= count <= MAX_NODES:
        raise ValueError(f"there can be 1 to {MAX_NODES} nodes, got {count}")
    return tuple(Node(number) for number in range(count))


def hosts_file(joined: Sequence[Node]) -> str:
    """The content of ``/etc/hosts`` on each node."""
    local = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    return "\n".join([*local, *(f"{node.address}\t{node.name}" for node in joined)]) + "\n"
