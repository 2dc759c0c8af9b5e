"""The network of a step's instances: names, addresses and the commands that make it, without making it.

Every node has one device, ``eth0`` as on Azure's machines, whose other end is a port of a bridge. The bridge
is in a namespace of its own, so that names and addresses meet nobody else's: two runs at the same time have
the same ones.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from worldsize.running.nodes.links import Link, shaping

Command = tuple[str, ...]

NETWORK = ipaddress.ip_network("10.213.0.0/16")  # private (RFC 1918), and seldom anybody's
DEVICE = "eth0"
SWITCH = "switch"
MOST_NODES = 1000  # a bridge has 1023 ports


@dataclass(frozen=True, slots=True)
class Node:
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


def nodes(count: int) -> tuple[Node, ...]:
    """The nodes of a step.

    Raises:
        ValueError: ``count`` is not from 1 to :data:`MOST_NODES`.
    """
    if not 1 <= count <= MOST_NODES:
        raise ValueError(f"there can be 1 to {MOST_NODES} nodes, got {count}")
    return tuple(Node(number) for number in range(count))


def hosts_file(joined: Sequence[Node]) -> str:
    """What each of them has as ``/etc/hosts``."""
    local = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    return "\n".join([*local, *(f"{node.address}\t{node.name}" for node in joined)]) + "\n"


def switch_commands() -> tuple[Command, ...]:
    """What makes the switch, for ``ip`` in its namespace."""
    return (("link", "add", SWITCH, "type", "bridge"), ("link", "set", "dev", SWITCH, "up"))


def node_commands(node: Node, switch: str) -> tuple[Command, ...]:
    """What connects a node, for ``ip`` in the node's namespace.

    Args:
        node: The node.
        switch: The id of a process in the switch's namespace.
    """
    peer = ("peer", "name", node.name, "netns", switch)
    return (
        ("link", "set", "dev", "lo", "up"),
        ("link", "add", DEVICE, "type", "veth", *peer),
        ("address", "add", f"{node.address}/{NETWORK.prefixlen}", "dev", DEVICE),
        ("link", "set", "dev", DEVICE, "up"),
    )


def port_commands(node: Node) -> tuple[Command, ...]:
    """What plugs a node in, for ``ip`` in the switch's namespace."""
    return (("link", "set", "dev", node.name, "master", SWITCH, "up"),)


def plug(node: Node, *, plugged: bool) -> Command:
    """What pulls a node's cable, or plugs it in again, for ``ip`` in the switch's namespace."""
    return ("link", "set", "dev", node.name, "up" if plugged else "down")


def uplink(link: Link) -> tuple[Command, ...]:
    """What shapes what a node sends, for ``tc`` in its namespace."""
    return shaping(DEVICE, link)


def downlink(node: Node, link: Link) -> tuple[Command, ...]:
    """What shapes what a node receives, for ``tc`` in the switch's namespace.

    The way is delayed and loses packets once, when a packet leaves its sender.
    """
    return shaping(node.name, Link(link.bits_per_s))
