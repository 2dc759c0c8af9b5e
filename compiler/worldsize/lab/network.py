"""Plans the network of a step's instances: how links are shaped, and the commands that make it.

Each node has one device, ``eth0`` as on Azure's machines, whose other end is a port of a bridge. The bridge
is in a namespace of its own, so two runs at the same time can use the same names and addresses.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from worldsize.base.problem import HelpfulError
from worldsize.running.model.emulation import Network

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
Command = tuple[str, ...]
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


class FittedLink(Struct, frozen=True):
    """The links of a step on this machine, and their description."""

    link: Link
    said: str


def fit_link(
    option: Link | None, network: Network | None, *, can_shape: bool = True, can_delay: bool = True
) -> FittedLink:
    """Fit the link that ``--link`` asks for, or that of the VM size, to this kernel.

    Rates are limited by ``tbf``, delay and loss are made by ``netem``.
    """
    requested, source = (option, "`--link`") if option is not None else (UNSHAPED, "")
    if option is None and network is not None:
        requested, source = Link(network.gbps * 1e9), network.title
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
    return FittedLink(link, description)


def shaping_commands(device: str, link: Link) -> tuple[tuple[str, ...], ...]:
    """The commands for ``tc`` that shape what a device sends: ``netem`` at the root, ``tbf`` in it."""
    commands: list[tuple[str, ...]] = []
    parent: tuple[str, ...] = ("root",)
    if link.delay_s or link.loss:
        impaired = ("delay", f"{max(1, round(link.delay_s * 1e6))}us") if link.delay_s else ()
        lost = ("loss", f"{100 * link.loss:.6g}%") if link.loss else ()
        limit = ("limit", str(_packets_under_way(link)))
        commands.append(
            ("qdisc", "add", "dev", device, *parent, "handle", "1:", "netem", *limit, *impaired, *lost)
        )
        parent = ("parent", "1:1", "handle", "10:")
    if link.bits_per_s is not None:
        burst = max(MIN_BURST_BYTES, round(link.bits_per_s / 8 * BURST_S))
        bucket = (
            "rate",
            f"{round(link.bits_per_s)}bit",
            "burst",
            f"{burst}b",
            "latency",
            f"{QUEUE_S * 1e3:g}ms",
        )
        commands.append(("qdisc", "add", "dev", device, *parent, "tbf", *bucket))
    return tuple(commands)


def _packets_under_way(link: Link) -> int:
    """The packets that ``netem`` must hold: the link's delay and queue at its rate."""
    bits = (link.bits_per_s or MAX_BITS_PER_S) * (link.delay_s + QUEUE_S)
    return max(1000, round(bits / 8 / PACKET_BYTES))


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


def switch_commands() -> tuple[Command, ...]:
    """The commands for ``ip`` in the switch's namespace that make it."""
    return (("link", "add", SWITCH, "type", "bridge"), ("link", "set", "dev", SWITCH, "up"))


def node_commands(node: Node, switch: str) -> tuple[Command, ...]:
    """The commands for ``ip`` in a node's namespace that connect it to the namespace of a process."""
    peer = ("peer", "name", node.name, "netns", switch)
    return (
        ("link", "set", "dev", "lo", "up"),
        ("link", "add", DEVICE, "type", "veth", *peer),
        ("address", "add", f"{node.address}/{NETWORK.prefixlen}", "dev", DEVICE),
        ("link", "set", "dev", DEVICE, "up"),
    )


def port_commands(node: Node) -> tuple[Command, ...]:
    """The commands for ``ip`` in the switch's namespace that connect a node."""
    return (("link", "set", "dev", node.name, "master", SWITCH, "up"),)


def plug_command(node: Node, *, plugged: bool) -> Command:
    """The command for ``ip`` in the switch's namespace that cuts or restores a node's link."""
    return ("link", "set", "dev", node.name, "up" if plugged else "down")


def uplink_commands(link: Link) -> tuple[Command, ...]:
    """The commands for ``tc`` in a node's namespace that shape what it sends."""
    return shaping_commands(DEVICE, link)


def downlink_commands(node: Node, link: Link) -> tuple[Command, ...]:
    """The commands for ``tc`` in the switch's namespace that shape what a node receives.

    Delay and loss are applied once, when a packet leaves its sender.
    """
    return shaping_commands(node.name, Link(link.bits_per_s))
