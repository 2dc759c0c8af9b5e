"""``distribution: {type: pytorch}``: the command once per process, with torch's ``env://`` variables.

Azure ML sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and NODE_RANK on every instance and RANK and LOCAL_RANK
for every process (Microsoft Learn, "Distributed GPU training guide"). LOCAL_WORLD_SIZE is not part of that
contract, so it is not set here either: a script that needs it fails here and not first in the cloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldsize.running.processes import Call, Process

VARIABLES = frozenset({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NODE_RANK", "RANK", "LOCAL_RANK"})


def ports_needed(_call: Call) -> int:
    """One, on which rank 0 gathers the others."""
    return 1


def processes(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """One process a rank."""
    from worldsize.running.processes import place  # noqa: PLC0415 - it imports the launchers

    for rank in range(call.world_size):
        node, local_rank = divmod(rank, call.process_count_per_instance)
        rendezvous = {
            "MASTER_ADDR": call.host(0),
            "MASTER_PORT": ports[0],
            "WORLD_SIZE": str(call.world_size),
            "NODE_RANK": str(node),
            "RANK": str(rank),
            "LOCAL_RANK": str(local_rank),
        }
        yield place(call, rank, rendezvous)
