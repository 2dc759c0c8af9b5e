"""One worker of the benchmark of TensorFlow's loops: `tensorflow_loops.py MODEL SHARDS` with TF_CONFIG.

The plain loop is what TensorFlow's own guide to custom loops writes: the Keras model and Keras' optimizer
made in the strategy's scope, all rows in memory, one `tf.function` a step, which the optimizer ends with
its exchange of gradients. It has no schedule, no metrics, no checkpoints. Ours reads the shards by memory
map, logs each step's loss to MLflow and follows the schedule.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from wsshards.errors import run_main
from wsshards.reader import ShardReader
from wstrain.data.sampler import GlobalBatchSampler
from wstrain.launch.gpus import PlannedGpus
from wstrain.lr_schedule import LearningRateSchedule
from wstrain.tracking.step_recorder import Progress
from wstrain_tensorflow.launch import setup, tf_config
from wstrain_tensorflow.launch.rendezvous import Rendezvous

CLUSTER = tf_config.read_tf_config(os.environ)
MEETING = Rendezvous(CLUSTER.members, CLUSTER.number, 120)
setup.setup_tensorflow(CLUSTER, PlannedGpus(), local_size=2, precision="fp32")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from wstrain.settings import OptimizerOptions  # noqa: E402
from wstrain.tracking.mlflow_tracker import Tracker  # noqa: E402
from wstrain.tracking.step_recorder import StepRecorder  # noqa: E402
from wstrain_tensorflow.data import BatchLoader, prepare_rows  # noqa: E402
from wstrain_tensorflow.models import Models  # noqa: E402
from wstrain_tensorflow.models.network import FunctionalNetwork  # noqa: E402
from wstrain_tensorflow.optimizers import Optimizer  # noqa: E402
from wstrain_tensorflow.precision import LossScale  # noqa: E402
from wstrain_tensorflow.strategies import multi_worker_mirrored  # noqa: E402
from wstrain_tensorflow.training import WorkerGroup, read_sample_spec  # noqa: E402

STRETCH = 10  # steps of one loop before the other takes its turn
TURNS = 15
RATE = 0.001
CASES = {"cnn": (64, "sgd"), "gpt": (16, "adam")}  # micro-batch, optimizer
SIZES = {"gpt_layers": 4, "gpt_heads": 4, "gpt_width": 128, "seed": 0, "sync_batch_norm": False}


class Setting:
    """What both loops share."""

    def __init__(self, model: str, shards: str) -> None:
        self.model = model
        self.batch, self.optimizer = CASES[model]
        self.size = 2 * self.batch
        self.strategy = multi_worker_mirrored.join_workers(CLUSTER)
        self.reader = ShardReader(shards, "train")
        self.samples = read_sample_spec(self.reader.manifest)
        features, labels = self.reader.gather(np.arange(len(self.reader)))
        sample = np.asarray(features[:2048], np.float32) if model == "cnn" else None
        settings: Any = SimpleNamespace(model=model, **SIZES)
        self.models = Models(settings, self.samples, sample)
        self.rows = prepare_rows(self.samples, features, labels)


def plain_loop(setting: Setting) -> Callable[[int], None]:
    """Return the peer: train `STRETCH` steps from a given one."""
    strategy, (inputs, targets) = setting.strategy, setting.rows
    with strategy.scope():
        model = setting.models.make()
        optimizer: Any = keras.optimizers.Adam(RATE)
        if setting.optimizer == "sgd":
            optimizer = keras.optimizers.SGD(RATE, momentum=0.9)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
                loss = tf.reduce_mean(losses) / strategy.num_replicas_in_sync
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(replica, args=(x, y))

    def train(start: int) -> None:
        per_epoch = len(inputs) // setting.size
        for number in range(start, start + STRETCH):
            epoch, batch = divmod(number, per_epoch)
            order = np.random.default_rng(epoch).permutation(len(inputs))
            mine = order[batch * setting.size + CLUSTER.index * setting.batch :][: setting.batch]
            step(tf.constant(inputs[mine]), tf.constant(targets[mine]))

    return train


def our_loop(setting: Setting, tracker: Tracker | None) -> Callable[[int], None]:
    """Return ours: train `STRETCH` steps from a given one."""
    steps, strategy = STRETCH * (TURNS + 1), setting.strategy
    network = FunctionalNetwork(setting.models.make(), strategy)
    trainer = multi_worker_mirrored.Mirrored(
        strategy,
        network,
        setting.samples,
        Optimizer(OptimizerOptions(setting.optimizer), network.trained, strategy),
        LossScale(False, strategy),
        accumulation=1,
        max_gradient_norm=0.0,
    )
    sampler = GlobalBatchSampler(len(setting.reader), setting.size, seed=0)
    feed = BatchLoader(setting.reader, sampler, setting.samples, [CLUSTER.index], 2, accumulation=1, seed=0)
    schedule = LearningRateSchedule(RATE, RATE, 10, steps, "constant")
    per_epoch = len(setting.reader) // setting.size
    recorder = StepRecorder(WorkerGroup(MEETING), steps, per_epoch, setting.size, tracker, Progress(None))

    def train(start: int) -> None:
        micro_batches = feed.stream(start, start + STRETCH)
        for number in range(start, start + STRETCH):
            trainer.step(number, micro_batches, schedule.rate(number), recorder.step)
        recorder.finish()

    return train


def main() -> None:
    """Let both loops take turns; worker 0 prints our speed and its ratio to the peer's."""
    setting = Setting(*sys.argv[1:])
    with Tracker({}, STRETCH * TURNS) if CLUSTER.is_main else nullcontext() as tracker:
        plain, ours = plain_loop(setting), our_loop(setting, tracker)
        seconds: list[tuple[float, float]] = []
        for turn in range(TURNS + 1):
            first, second = (plain, ours) if turn % 2 else (ours, plain)
            times = {first: clocked(first, turn), second: clocked(second, turn)}
            seconds.append((times[plain], times[ours]))
    del seconds[0]  # it traced the functions
    if CLUSTER.is_main:
        ratio = statistics.median(theirs / own for theirs, own in seconds)
        speed = STRETCH * setting.size / statistics.median(own for _, own in seconds)
        print(f"{setting.model}: {speed:,.0f} samples/s in our loop, over a plain loop {ratio:.3f}")
    MEETING.leave()


def clocked(train: Callable[[int], None], turn: int) -> float:
    """Seconds of one stretch, from the moment both workers start to the moment both have ended."""
    MEETING.gather("start")
    began = time.perf_counter()
    train(turn * STRETCH)
    MEETING.gather("end")
    return time.perf_counter() - began


if __name__ == "__main__":
    run_main(main)
