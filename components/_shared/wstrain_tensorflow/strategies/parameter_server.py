"""``ParameterServerStrategy``: servers hold the weights, and each worker updates them on its own.

Azure ML's ``TF_CONFIG`` has workers and servers but no chief, so worker 0's process runs both the server of
its worker task, as every process does for its task, and the coordinator, which gives micro-batches to
whichever worker is free. The weights may have changed before a worker's gradients arrive (Dean et al. 2012,
"Large Scale Distributed Deep Networks", section 4.1): a step here is one worker's update, its loss that of
``b·a`` samples, and no two runs are alike.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from wsshards.manifest import Manifest
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.settings import Settings
from wstrain_tensorflow.checkpoint import Named
from wstrain_tensorflow.data import MicroBatch
from wstrain_tensorflow.launch.rendezvous import Rendezvous
from wstrain_tensorflow.launch.tf_config import Cluster
from wstrain_tensorflow.loop import Record, train_steps
from wstrain_tensorflow.models.network import Network, loss_and_gradients
from wstrain_tensorflow.optimizers import Optimizer, clip_gradients
from wstrain_tensorflow.task import Task
from wstrain_tensorflow.training import Job

_WAITING = 3  # updates scheduled for each worker: one is computed, the others wait


def train(
    settings: Settings, cluster: Cluster, rendezvous: Rendezvous, manifest: Manifest, heartbeat: Heartbeat
) -> None:
    """Serve this process's task; worker 0 also coordinates and writes metrics, checkpoints and the model.

    The others return at once and serve until they leave the rendezvous, which waits for worker 0.

    Raises:
        UserError: shards, model and inputs do not fit each other.
    """
    chief = rendezvous.gather(_free_address(cluster) if cluster.is_main else "")[0]
    spec = tf.train.ClusterSpec(
        {"chief": [chief], "worker": list(cluster.workers), "ps": list(cluster.servers)}
    )
    _serve(cluster, spec)
    rendezvous.gather("serving")
    heartbeat.mark(Phase.SERVING)
    if cluster.is_main:
        _coordinate(settings, cluster, manifest, spec, rendezvous, heartbeat=heartbeat)


def _free_address(cluster: Cluster) -> str:
    """Return a free address of this machine for the coordinator, which ``TF_CONFIG`` does not have."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{cluster.workers[0].rpartition(':')[0]}:{probe.getsockname()[1]}"


_servers: list[Any] = []  # a server ends when its object is collected


def _serve(cluster: Cluster, spec: Any) -> None:
    _servers.append(
        tf.distribute.Server(
            spec, job_name=cluster.task, task_index=cluster.index, protocol="grpc", start=True
        )
    )


def _coordinate(
    settings: Settings,
    cluster: Cluster,
    manifest: Manifest,
    spec: Any,
    rendezvous: Rendezvous,
    *,
    heartbeat: Heartbeat,
) -> None:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec, task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    alone = Rendezvous(
        (), 0, 0.0, rendezvous.status
    )  # the others only serve, so there is nothing to agree on
    job = Job(settings, cluster, alone, manifest)
    network = job.network(strategy)
    updates = WorkerUpdates(
        coordinator,
        network,
        job.samples,
        job.optimizer(network, strategy),
        accumulation=settings.gradient_accumulation_steps,
        max_gradient_norm=settings.max_gradient_norm,
        limit=_WAITING * cluster.worker_count,
    )
    train_steps(job, updates, job.loader([0], 1), heartbeat)


class WorkerUpdates:
    """Updates of whichever worker is free: gradients of its micro-batches, applied to the servers' weights.

    Args:
        coordinator: schedules them.
        network: whose variables are on the servers.
        samples: inputs and outputs of the model.
        optimizer: of these variables.
        accumulation: micro-batches an update.
        max_gradient_norm: longer gradients are scaled down to this length; 0 for never.
        limit: largest number of updates that have not ended; the next waits for the oldest.
    """

    def __init__(
        self,
        coordinator: Any,
        network: Network,
        samples: Task,
        optimizer: Optimizer,
        *,
        accumulation: int,
        max_gradient_norm: float,
        limit: int,
    ) -> None:
        self.network = network
        self._coordinator, self._samples, self._optimizer = coordinator, samples, optimizer
        self._max_norm, self._accumulation, self._limit = max_gradient_norm, accumulation, limit
        self._function = tf.function(self._update)
        self._waiting: deque[tuple[int, Any, float]] = deque()

    @property
    def variables(self) -> Named:
        """Return weights and optimizer."""
        return {"model": self.network.trained, "kept": self.network.kept, **self._optimizer.slots}

    def step(
        self, step: int, micro_batches: Iterator[list[MicroBatch]], learning_rate: float, record: Record
    ) -> None:
        """Schedule an update on whichever worker is free."""
        parts = [next(micro_batches)[0] for _ in range(self._accumulation)]
        # Micro-batches and numbers as tensors: inputs ``[a, n, …]``, targets, seeds, rate, number from 1.
        stacked = [tf.stack(part) for part in zip(*parts, strict=True)]
        rate = tf.constant(learning_rate, tf.float32)
        count = tf.constant(step + 1, tf.float32)
        self._wait(self._limit - 1, record)
        loss = self._coordinator.schedule(self._function, args=(*stacked, rate, count))
        self._waiting.append((step, loss, float(rate)))

    def settle(self, record: Record) -> None:
        """Wait until the weights have all updates, and record their steps."""
        self._wait(0, record)
        self._coordinator.join()

    def _wait(self, count: int, record: Record) -> None:
        """Wait until at most so many updates have not ended."""
        while len(self._waiting) > count:
            step, loss, rate = self._waiting.popleft()
            record(step, loss.fetch(), rate)

    def _update(self, inputs: Any, targets: Any, seeds: Any, rate: Any, count: Any) -> Any:
        def replica(inputs: Any, targets: Any, seeds: Any) -> list[Any]:
            total: list[Any] = []
            for micro in range(self._accumulation):
                loss, gradients = loss_and_gradients(
                    self.network,
                    self._samples,
                    inputs[micro],
                    targets[micro],
                    seeds[micro],
                    scale=tf.constant(1.0),
                )
                new = [*gradients, loss]
                total = [so_far + term for so_far, term in zip(total, new, strict=True)] if total else new
            *gradients, loss = [value / self._accumulation for value in total]
            return [*clip_gradients(gradients, self._max_norm), loss]

        *gradients, loss = self._coordinator.strategy.run(replica, args=(inputs, targets, seeds))
        self._optimizer.apply(gradients, rate, count)
        return loss
