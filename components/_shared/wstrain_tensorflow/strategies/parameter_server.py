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
from functools import partial
from typing import Any

import tensorflow as tf

from wsshards.manifest import Manifest
from wstrain import run_facts
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.settings import Settings
from wstrain.tracking.step_recorder import StepRecorder
from wstrain_tensorflow.data import MicroBatch
from wstrain_tensorflow.launch.rendezvous import Rendezvous
from wstrain_tensorflow.launch.tf_config import Cluster
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
    optimizer = job.optimizer(network, strategy)
    variables = {"model": network.trained, "kept": network.kept, **optimizer.slots}
    saver = job.saver(variables)
    start = saver.resume(settings.resume_from)
    schedule = run_facts.make_schedule(settings, job.steps)
    update = WorkerUpdate(strategy, network, job.samples, optimizer, settings)
    with job.recorder() as recorder:
        pending = PendingUpdates(coordinator, recorder, limit=_WAITING * cluster.worker_count)

        saver.settle = partial(_settle, pending, recorder)
        # The coordinator validates on its own: the workers have nothing to do meanwhile.
        validator = job.validator(network, recorder, saver, heartbeat)
        validator.settle = pending.join
        batches = job.loader([0], 1).stream(start, job.stop)
        recorder.inspect = job.inspector(network)
        heartbeat.note_start(start)
        stops, done = validator.step(start), start
        for step in range(start, start if stops else job.stop):
            parts = [next(batches)[0] for _ in range(settings.gradient_accumulation_steps)]
            pending.schedule(step, update.arguments(parts, schedule.rate(step), step + 1), update.function)
            done = step + 1
            stops = validator.step(done)
            if saver.is_due(done):
                heartbeat.mark(Phase.SAVING)
                saver.step(done)
            heartbeat.note_step(done)
            if stops:
                break
        pending.wait()
        heartbeat.mark(Phase.EXPORTING)
        final = recorder.finish()
        saver.save(done)
        saver.finish()
        job.export(network, saver, final, done)


def _settle(pending: PendingUpdates, recorder: StepRecorder) -> None:
    pending.join()
    recorder.settle()


class PendingUpdates:
    """Updates that were scheduled and have not ended, in order.

    Args:
        coordinator: schedules them.
        recorder: records them when they have ended.
        limit: largest number of pending updates; the next waits for the oldest.
    """

    def __init__(self, coordinator: Any, recorder: StepRecorder, limit: int) -> None:
        self._coordinator, self._recorder, self._limit = coordinator, recorder, limit
        self._waiting: deque[tuple[int, Any, float]] = deque()

    def schedule(self, step: int, arguments: tuple[Any, ...], function: Any) -> None:
        """Schedule an update on whichever worker is free."""
        while len(self._waiting) >= self._limit:
            self._wait_for_oldest()
        loss = self._coordinator.schedule(function, args=arguments)
        self._waiting.append((step, loss, float(arguments[3])))

    def wait(self) -> None:
        """Wait for all pending updates."""
        while self._waiting:
            self._wait_for_oldest()

    def join(self) -> None:
        """Wait until the weights have all updates."""
        self.wait()
        self._coordinator.join()

    def _wait_for_oldest(self) -> None:
        step, loss, rate = self._waiting.popleft()
        self._recorder.step(step, loss.fetch(), rate)


class WorkerUpdate:
    """One worker's update: gradients of its micro-batches' mean loss, applied to the servers' weights."""

    def __init__(
        self,
        strategy: Any,
        network: Network,
        samples: Task,
        optimizer: Optimizer,
        settings: Settings,
    ) -> None:
        self._samples = samples
        self._strategy, self._network, self._optimizer = strategy, network, optimizer
        self._max_norm, self._accumulation = settings.max_gradient_norm, settings.gradient_accumulation_steps
        self.function = tf.function(self._update)

    def arguments(self, parts: list[MicroBatch], rate: float, count: int) -> tuple[Any, ...]:
        """Micro-batches and numbers as tensors: inputs ``[a, n, …]``, targets, seeds, rate, number from 1."""
        stacked = [tf.stack(part) for part in zip(*parts, strict=True)]
        return (*stacked, tf.constant(rate, tf.float32), tf.constant(count, tf.float32))

    def _update(self, inputs: Any, targets: Any, seeds: Any, rate: Any, count: Any) -> Any:
        def replica(inputs: Any, targets: Any, seeds: Any) -> list[Any]:
            total: list[Any] = []
            for micro in range(self._accumulation):
                loss, gradients = loss_and_gradients(
                    self._network,
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

        *gradients, loss = self._strategy.run(replica, args=(inputs, targets, seeds))
        self._optimizer.apply(gradients, rate, count)
        return loss
