"""Addresses that nothing which a user or a stranger names may lead to."""

from __future__ import annotations

import ipaddress

# The metadata service of a virtual machine and the host below it, where a machine's own identity is found.
# Other clouds have theirs at other addresses of the link.
_MACHINE = frozenset(map(ipaddress.ip_address, ("169.254.169.254", "168.63.129.16")))


def is_machine(address: str) -> bool:
    """Whether an IP address, as it was resolved, is that of a service of the machine that Azure runs on."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    embedded = [parsed]
    if isinstance(parsed, ipaddress.IPv6Address):
        embedded += [inner for inner in (parsed.ipv4_mapped, parsed.sixtofour) if inner is not None]
        embedded += parsed.teredo or ()
    last = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)  # of `::a.b.c.d`, and NAT64's
    return any(inner.is_link_local for inner in embedded) or not _MACHINE.isdisjoint((*embedded, last))
