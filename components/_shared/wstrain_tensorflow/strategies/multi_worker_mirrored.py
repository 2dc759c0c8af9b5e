"""``MultiWorkerMirroredStrategy``: every replica holds the whole model and gradients are averaged.

Each micro-batch's loss is a mean over ``b`` samples. A replica adds the gradients of its ``a`` micro-
batches up on its own; the last one's are followed by one exchange, together with the loss. As all ``a·W``
micro-batches have one size, their mean is the gradient of the mean loss of the global batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from wsshards.manifest import Manifest
from wstrain.health.heartbeat import Heartbeat
from wstrain.settings import Settings
from wstrain_tensorflow.checkpoint import Named
from wstrain_tensorflow.data import MicroBatch
from wstrain_tensorflow.launch.rendezvous import Rendezvous
from wstrain_tensorflow.launch.tf_config import Cluster
from wstrain_tensorflow.loop import Record, train_steps
from wstrain_tensorflow.models.network import Network, local_copy, loss_and_gradients
from wstrain_tensorflow.optimizers import Optimizer, clip_gradients
from wstrain_tensorflow.precision import LossScale
from wstrain_tensorflow.task import Task
from wstrain_tensorflow.training import Job, expect_replicas


def join_workers(cluster: Cluster) -> Any:
    """Return the strategy of all workers: NCCL between GPUs, a ring between CPUs.

    A single worker uses the GPUs of its machine.
    """
    kinds = tf.distribute.experimental.CommunicationImplementation
    gpus = tf.config.list_physical_devices("GPU")
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=kinds.NCCL if gpus else kinds.RING
    )
    if cluster.worker_count == 1:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.workers)}),
        task_type="worker",
        task_id=cluster.index,
        rpc_layer="grpc",
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)


class Mirrored:
    """Optimizer steps over all replicas.

    Args:
        strategy: from :func:`join_workers`.
        network: whose variables the strategy owns.
        samples: inputs and outputs of the model.
        optimizer: of these variables.
        scale: for fp16.
        accumulation: micro-batches a step.
        max_gradient_norm: longer gradients are scaled down to this length; 0 for never.
    """

    def __init__(
        self,
        strategy: Any,
        network: Network,
        samples: Task,
        optimizer: Optimizer,
        scale: LossScale,
        *,
        accumulation: int,
        max_gradient_norm: float,
    ) -> None:
        self.network = network
        self._strategy, self._optimizer = strategy, optimizer
        self._samples = samples
        self._scale, self._max_norm, self._accumulation = scale, max_gradient_norm, accumulation
        self._parts = accumulation * strategy.num_replicas_in_sync
        self._sums: list[Any] = []  # of gradients and, last, the loss, in each replica
        if accumulation > 1:
            with strategy.scope():
                zeros = [tf.zeros(variable.shape, variable.dtype) for variable in network.trained]
                self._sums = [local_copy(initial, "sum") for initial in [*zeros, tf.constant(0.0)]]
        self._add = tf.function(self._add_up)
        self._finish = tf.function(self._exchange_and_update)

    @property
    def variables(self) -> Named:
        """Return weights, optimizer and loss scale."""
        network, slots = self.network, self._optimizer.slots
        return {"model": network.trained, "kept": network.kept, "scale": self._scale.variables, **slots}

    def step(
        self, step: int, micro_batches: Iterator[list[MicroBatch]], learning_rate: float, record: Record
    ) -> None:
        """Take one optimizer step and record the global batch's mean loss."""
        for _ in range(self._accumulation - 1):
            self._add(*self._spread(next(micro_batches)))
        rate = tf.constant(learning_rate, tf.float32)
        record(step, self._finish(*self._spread(next(micro_batches)), rate), learning_rate)

    def settle(self, record: Record) -> None:
        """Do nothing: every step ends before the next."""

    def _spread(self, batches: Sequence[MicroBatch]) -> tuple[Any, ...]:
        if len(batches) == 1:
            return tuple(tf.constant(part) for part in batches[0])
        first = self._strategy.extended._get_replica_id_in_sync_group(0)  # noqa: SLF001  no public name
        return tuple(
            self._strategy.experimental_distribute_values_from_function(
                lambda context, part=part: tf.constant(
                    batches[context.replica_id_in_sync_group - first][part]
                )
            )
            for part in range(len(MicroBatch._fields))
        )

    def _add_up(self, inputs: Any, targets: Any, seed: Any) -> None:
        def replica(inputs: Any, targets: Any, seed: Any) -> None:
            for total_so_far, new in zip(self._sums, self._gradients(inputs, targets, seed), strict=True):
                total_so_far.assign_add(new)

        self._strategy.run(replica, args=(inputs, targets, seed))

    def _exchange_and_update(self, inputs: Any, targets: Any, seed: Any, rate: Any) -> Any:
        def replica(inputs: Any, targets: Any, seed: Any) -> list[Any]:
            sums = self._gradients(inputs, targets, seed)
            if self._sums:
                sums = [new + total_so_far for new, total_so_far in zip(sums, self._sums, strict=True)]
                for total_so_far in self._sums:
                    total_so_far.assign(tf.zeros_like(total_so_far))
            context = tf.distribute.get_replica_context()
            total = context.all_reduce(tf.distribute.ReduceOp.SUM, sums)
            *gradients, loss = [value / self._parts for value in total]
            gradients, finite = self._scale.unscale(gradients)
            return [*clip_gradients(gradients, self._max_norm), finite, loss]

        *gradients, finite, loss = self._strategy.run(replica, args=(inputs, targets, seed))
        first = self._strategy.experimental_local_results
        self._scale.update(first(finite)[0], lambda count: self._optimizer.apply(gradients, rate, count))
        return first(loss)[0]

    def _gradients(self, inputs: Any, targets: Any, seed: Any) -> list[Any]:
        loss, gradients = loss_and_gradients(
            self.network, self._samples, inputs, targets, seed, scale=self._scale.value()
        )
        return [*gradients, loss]


def train(
    settings: Settings, cluster: Cluster, rendezvous: Rendezvous, manifest: Manifest, heartbeat: Heartbeat
) -> None:
    """Train on this worker; worker 0 writes metrics, checkpoints and the model.

    Raises:
        UserError: shards, model, inputs and devices do not fit each other.
    """
    strategy = join_workers(cluster)  # before TensorFlow's first operation
    expect_replicas(strategy, settings)
    job = Job(settings, cluster, rendezvous, manifest)
    network = job.network(strategy)
    mirrored = Mirrored(
        strategy,
        network,
        job.samples,
        job.optimizer(network, strategy),
        job.scale(strategy),
        accumulation=settings.gradient_accumulation_steps,
        max_gradient_norm=settings.max_gradient_norm,
    )
    local = settings.world_size // cluster.worker_count
    loader = job.loader(range(cluster.index * local, (cluster.index + 1) * local), settings.world_size)
    train_steps(job, mirrored, loader, heartbeat)
