"""Which TensorFlow process this is, from ``TF_CONFIG``, which is read before TensorFlow sees it.

Azure ML starts a ``distribution: {type: tensorflow}`` command once per worker and per parameter server and
sets ``TF_CONFIG = {"cluster": {"worker": ["host:port", …], "ps": […]}, "task": {"type": …, "index": …}}``.
There is no chief: worker 0 leads. Without servers it sends an empty ``"ps": []``, which crashes TensorFlow,
so it is left out. This module needs no TensorFlow, so a wrong launch is reported before it is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wsshards.errors import UserError
from wstrain.launch.environment import refuse_other_launchers

NAME = "TF_CONFIG"
_START = "start the script with `distribution: {type: tensorflow}`, or alone, without `TF_CONFIG`"


@dataclass(frozen=True, slots=True)
class Cluster:
    """This process among the others.

    Attributes:
        task: ``worker`` or ``ps``.
        index: its number among those of its kind.
        workers: addresses ``host:port`` by index; empty for a single process.
        servers: addresses of the parameter servers.
    """

    task: str = "worker"
    index: int = 0
    workers: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()

    @property
    def is_main(self) -> bool:
        """Whether this process leads: it writes metrics, checkpoints and the model."""
        return self.task == "worker" and self.index == 0

    @property
    def worker_count(self) -> int:
        """Workers, at least this one."""
        return max(len(self.workers), 1)

    @property
    def members(self) -> tuple[tuple[str, str], ...]:
        """Name and address of every process; the leader is the first."""
        workers = [(f"worker {index}", address) for index, address in enumerate(self.workers)]
        servers = [(f"ps {index}", address) for index, address in enumerate(self.servers)]
        return (*workers, *servers)

    @property
    def number(self) -> int:
        """This process's number in :attr:`members`."""
        return self.index if self.task == "worker" else len(self.workers) + self.index

    def config(self) -> str:
        """``TF_CONFIG`` as TensorFlow takes it; empty for a single process."""
        if not self.workers:
            return ""
        cluster = {"worker": list(self.workers)} | ({"ps": list(self.servers)} if self.servers else {})
        return json.dumps({"cluster": cluster, "task": {"type": self.task, "index": self.index}})


def read_tf_config(env: Mapping[str, str]) -> Cluster:
    """Read ``TF_CONFIG``; without it, or without a cluster in it, this is a single process.

    Raises:
        UserError: ``TF_CONFIG`` is malformed or contradictory, or another launcher started the process.
    """
    text = env.get(NAME, "")
    cluster = _read(text) if text.strip() else Cluster()
    if len(cluster.workers) < 2 and not cluster.servers:
        unset = f"`{NAME}` names 1 worker" if cluster.workers else None
        refuse_other_launchers(env, "tensorflow", unset)
    return cluster


def _read(text: str) -> Cluster:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise UserError(f"`{NAME}` is not JSON: {error}", _START) from None
    if not isinstance(config, dict):
        raise UserError(f"`{NAME}` is not a JSON object", _START)
    jobs = config.get("cluster") or {}
    if not isinstance(jobs, dict):
        raise UserError(f"`cluster` in `{NAME}` is not an object of addresses by task type", _START)
    addresses = {name: _addresses(name, value) for name, value in jobs.items() if value}
    for name in addresses:
        if name not in ("worker", "ps"):
            raise UserError(
                f"`{NAME}` has tasks of type `{name}`, but only `worker` and `ps` are known",
                "worker 0 leads: list its address first under `worker`",
            )
    if not addresses:
        return Cluster()
    workers, servers = addresses.get("worker", ()), addresses.get("ps", ())
    if not workers:
        raise UserError(f"`{NAME}` does not name a worker", _START)
    task, index = _task(config.get("task"), {"worker": workers, "ps": servers})
    return Cluster(task, index, workers, servers)


def _addresses(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(address, str) for address in value):
        raise UserError(f"`{name}` in `{NAME}` is not a list of addresses", _START)
    for address in value:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UserError(f"`{address}` in `{NAME}` is not an address `host:port`", _START)
    twice = {address for address in value if value.count(address) > 1}
    if twice:
        raise UserError(f"`{NAME}` gives the address `{min(twice)}` to two tasks of type `{name}`", _START)
    return tuple(value)


def _task(value: Any, jobs: Mapping[str, tuple[str, ...]]) -> tuple[str, int]:
    task = value if isinstance(value, dict) else {}
    kind, index = task.get("type"), task.get("index", 0)
    if not isinstance(kind, str) or kind not in jobs:
        task_type = f"the task type `{kind}`" if kind else "no task type"
        raise UserError(f"`{NAME}` has {task_type}, but must say `worker` or `ps`", _START)
    if not isinstance(index, int) or isinstance(index, bool):
        raise UserError(f"the task index `{index}` in `{NAME}` is not a whole number", _START)
    if not 0 <= index < len(jobs[kind]):
        raise UserError(
            f"the task index in `{NAME}` is {index}, but there are {len(jobs[kind])} tasks of type `{kind}`",
            "indices count from 0",
        )
    return kind, index
