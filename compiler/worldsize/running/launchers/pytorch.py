"""``distribution: {type: pytorch}``: the command once per process, with torch's ``env://`` variables.

Azure ML sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK on every instance and RANK and LOCAL_RANK
for every process (Microsoft Learn, "Distributed GPU training guide"). LOCAL_WORLD_SIZE is not part of that
contract, so it is not set here either: a script that needs it fails here and not first in the cloud.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldsize.running.starting.processes import Call, Process

VARIABLES = frozenset({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NODE_RANK", "RANK", "LOCAL_RANK"})

# Gloo else listens where the machine's own name leads to, which may be an address that others reach.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0"}


def ports_needed(_call: Call) -> int:
    """One, on which rank 0 gathers the others."""
    return 1


def processes(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """One process a rank."""
    from worldsize.running.starting.processes import place  # noqa: PLC0415 - it imports the launchers

    near = {} if call.hosts else {name: value for name, value in LOOPBACK.items() if name not in call.env}
    for rank in range(call.world_size):
        node, local_rank = divmod(rank, call.process_count_per_instance)
        rendezvous = {
            "MASTER_ADDR": call.host(0),
            "MASTER_PORT": ports[0],
            "WORLD_SIZE": str(call.world_size),
            "NODE_RANK": str(node),
            "RANK": str(rank),
            "LOCAL_RANK": str(local_rank),
            **near,
        }
        yield place(call, rank, rendezvous)
