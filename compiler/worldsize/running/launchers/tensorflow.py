"""``distribution: {type: tensorflow}``: the command once per worker and per parameter server, with TF_CONFIG.

TF_CONFIG is what Azure ML gives: lists of workers and parameter servers, the own task, and ``environment``;
no chief, since worker 0 takes that part (Microsoft Learn, "Distributed GPU training guide"; Azure Batch AI,
issue 15, for parameter servers, the first of which stands on the first instance beside worker 0). Azure ML
writes an empty ``ps`` where there is none. TensorFlow from 2.13 crashes on that, and scripts for Azure delete
it, so it is left out here.

A parameter server waits for requests for ever. It is planned as a process that serves: when all workers have
ended well it is ended, and the step has succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldsize.running.starting.processes import Call, Process

VARIABLES = frozenset({"TF_CONFIG"})


def ports_needed(call: Call) -> int:
    """One a process: each is a server to the others."""
    return call.world_size + call.parameter_server_count


def processes(call: Call, ports: Sequence[str]) -> Iterator[Process]:
    """The workers, then the parameter servers; both are dealt out over the instances in turn."""
    from worldsize.running.starting.processes import place  # noqa: PLC0415 - it imports the launchers

    tasks = [("worker", index) for index in range(call.world_size)]
    tasks += [("ps", index) for index in range(call.parameter_server_count)]
    cluster: dict[str, list[str]] = {}
    for (kind, index), port in zip(tasks, ports, strict=True):
        cluster.setdefault(kind, []).append(f"{call.host(index % call.instance_count)}:{port}")
    cluster = dict(sorted(cluster.items()))
    there = [0] * call.instance_count
    for rank, (kind, index) in enumerate(tasks):
        node = index % call.instance_count
        config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
        yield place(
            call,
            rank,
            {"TF_CONFIG": json.dumps(config)},
            at=(node, there[node]),
            name=f"{kind}-{index}",
            serves=kind == "ps",
        )
        there[node] += 1
