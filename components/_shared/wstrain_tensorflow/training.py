"""What every strategy of a TensorFlow training needs: data, model, checkpoints, recorder, export."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from wsshards.errors import UserError
from wsshards.manifest import Manifest
from wsshards.reader import ShardReader
from wsshards.verify import verify_shards
from wstrain import run_facts
from wstrain.checkpoint.checkpoint_folder import Retention
from wstrain.checkpoint.saver import BackgroundWriter
from wstrain.class_weights import NONE, weigh_classes
from wstrain.data.augmentation import make_augmentation
from wstrain.data.mixup import make_mixup
from wstrain.data.sample_spec import read_sample_spec
from wstrain.data.sampler import GlobalBatchSampler
from wstrain.health import non_finite
from wstrain.health.heartbeat import Heartbeat
from wstrain.hooks import load_hooks
from wstrain.option_checks import expect_options_fit, expect_task_fits
from wstrain.settings import Settings
from wstrain.tracking.step_recorder import Progress, StepRecorder
from wstrain.validation import decision_facts, describe_export, make_controller
from wstrain_tensorflow import export
from wstrain_tensorflow.checkpoint import NAMES, CheckpointSaver, Named
from wstrain_tensorflow.data import BatchLoader
from wstrain_tensorflow.hook_checks import expect_hooks
from wstrain_tensorflow.launch.rendezvous import Rendezvous
from wstrain_tensorflow.launch.tf_config import Cluster
from wstrain_tensorflow.model_weights import is_legacy, name_state
from wstrain_tensorflow.models import Models
from wstrain_tensorflow.models.network import FunctionalNetwork, LegacyNetwork, Network
from wstrain_tensorflow.optimizers import AVERAGE, Optimizer
from wstrain_tensorflow.precision import LossScale, dtype_policy
from wstrain_tensorflow.task import Task, encode_inputs, make_task
from wstrain_tensorflow.validation import Validator, assign_weights, read_weights

if TYPE_CHECKING:
    from wstrain.tracking.mlflow_tracker import Tracker

SAMPLE_ROWS = 2048  # training rows from which a model of numbers takes its input scale


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """The workers, as the recorder sees them; a step's loss is already that of the global batch."""

    rendezvous: Rendezvous

    @property
    def is_main(self) -> bool:
        """Whether this worker leads."""
        return self.rendezvous.is_main

    def average(
        self, losses: Sequence[Any], seconds: float, compute_seconds: float = 0.0
    ) -> tuple[list[float], float, list[float]]:
        """Wait for the losses, and exchange statuses with the other workers."""
        means = [float(loss) for loss in losses]
        status = self.rendezvous.status
        # Repeated, as a thread of TensorFlow replaces the signal handler at some point.
        self.rendezvous.stop_on_sigterm()
        gathered = self.rendezvous.gather([seconds, compute_seconds, *status.numbers()])
        seconds, _, *statuses = (sum(values) / len(gathered) for values in zip(*gathered, strict=True))
        status.receive(statuses, means, seconds)
        return means, seconds, [values[1] for values in gathered]

    def gather(self, value: Any) -> list[Any]:
        """Return this value only, as all workers have the same."""
        return [value]

    def title(self, rank: int) -> str:
        """Return a worker's name in messages."""
        return f"worker {rank}"


class Job:
    """One training, whatever its strategy.

    Args:
        settings: the component's inputs.
        cluster: which process this is.
        rendezvous: connects the processes that take part.
        manifest: of the shards.

    Raises:
        UserError: shards, model and inputs do not fit each other.
    """

    def __init__(
        self, settings: Settings, cluster: Cluster, rendezvous: Rendezvous, manifest: Manifest
    ) -> None:
        self.settings, self.cluster, self.rendezvous = settings, cluster, rendezvous
        self.manifest = manifest
        self.averages: Sequence[Any] = ()  # of the trained weights
        self.steps = run_facts.count_steps(settings, manifest)
        self.facts = run_facts.collect_facts(settings, manifest, self.steps)
        self.stop = min(self.steps["total_steps"], settings.stop_after_steps or self.steps["total_steps"])
        expect_options_fit(settings)
        with rendezvous.together():
            self.samples = _read_task(settings, manifest)
        self.controller = make_controller(settings, manifest, self.steps, self.samples.hooks)
        with rendezvous.together():
            part = (cluster.index, cluster.worker_count)
            splits = ("train", "validation") if self.controller.schedule.intervals else ("train",)
            verify_shards(settings.shards, manifest, splits=splits, part=part)
            self.reader = ShardReader(settings.shards, "train", checksums=False)
            if settings.class_weights != NONE:
                weights = weigh_classes(settings.class_weights, self.samples.names, self.reader.labels())
                self.samples = replace(self.samples, class_weights=weights)
            self.augmentation = make_augmentation(settings.augmentation, manifest.features, settings.seed)
            self.sampler = GlobalBatchSampler(manifest.train.rows, settings.global_batch_size, settings.seed)
            self.models = Models(settings, self.samples, self._sample())
            model = self.models.make(dtype_policy(settings.precision))
            self.models.warn(model)
            if cluster.is_main and self.models.tuning.said:
                print("\n".join(self.models.tuning.said), flush=True)
            if self.samples.hooks is not None:
                expect_hooks(self.samples, self.samples.hooks, model, self.reader, self.sampler)
            export.Program(model, self.samples)  # fails now rather than after the last epoch
        self._model = model

    def network(self, strategy: Any) -> Network:
        """Return the model with the strategy's variables."""
        if is_legacy(self._model):
            return LegacyNetwork(lambda: self.models.make(dtype_policy(self.settings.precision)), strategy)
        return FunctionalNetwork(self._model, strategy, self.models.tuning.frozen)

    def optimizer(self, network: Network, strategy: Any) -> Optimizer:
        """Return the optimizer of the model's variables."""
        settings = self.settings
        optimizer = Optimizer(settings.optimizer_options, network.trained, strategy, settings.ema_decay)
        self.averages = optimizer.slots.get(AVERAGE, ())
        return optimizer

    def scale(self, strategy: Any) -> LossScale:
        """Return the loss scale."""
        return LossScale(self.settings.precision == "fp16", strategy)

    def saver(self, variables: Named) -> CheckpointSaver:
        """Return the saver of the variables."""
        return CheckpointSaver(
            folder=self.settings.checkpoints,
            group=self.rendezvous,
            variables=variables,
            identity={**run_facts.training_identity(self.settings, self.facts), "framework": "tensorflow"},
            save_policy=run_facts.make_save_policy(self.settings, self.steps),
            keep=Retention(
                self.settings.keep_checkpoints,
                best=self.settings.keep_best or self.settings.export == "best",
            ),
            background=BackgroundWriter(threaded=self.settings.checkpoint_async),
            controller=self.controller if self.controller.schedule.intervals else None,
            about={NAMES: name_state(self._model)},
        )

    def validator(
        self, network: Network, recorder: StepRecorder, saver: CheckpointSaver, heartbeat: Heartbeat
    ) -> Validator:
        """Return what validates the model on the workers of the rendezvous."""
        members = len(self.rendezvous.names)
        return Validator(
            controller=self.controller,
            reader=ShardReader(self.settings.shards, "validation", checksums=False),
            samples=self.samples,
            hooks=self.samples.hooks,
            network=network,
            averages=self.averages,
            model=self._model,
            group=self.rendezvous,
            worker=self.cluster.index if members > 1 else 0,
            workers=members,
            recorder=recorder,
            saver=saver,
            heartbeat=heartbeat,
            rows_at_once=self.settings.batch_size_per_device,
        )

    def loader(self, replicas: Sequence[int], replica_count: int) -> BatchLoader:
        """Return the loader of some replicas' micro-batches."""
        decodes = self.augmentation is not None or self.reader.manifest.features.encoded
        return BatchLoader(
            reader=self.reader,
            sampler=self.sampler,
            samples=self.samples,
            replicas=replicas,
            replica_count=replica_count,
            accumulation=self.settings.gradient_accumulation_steps,
            seed=self.settings.seed,
            # Without a GPU the cores compute the model; a loader thread would only take turns with it, unless
            # it decodes pictures.
            workers=self.settings.loader_workers if decodes or tf.config.list_physical_devices("GPU") else 0,
            augmentation=self.augmentation,
            mixup=make_mixup(self.settings.mixup_alpha, self.settings.seed, self.sampler),
        )

    @contextmanager
    def recorder(self) -> Iterator[StepRecorder]:
        """Yield the recorder; the leader's reports to MLflow and the live view."""
        main = self.cluster.is_main
        with self.rendezvous.together():
            tracking: AbstractContextManager[Tracker | None] = nullcontext()
            if main:
                from wstrain.tracking.mlflow_tracker import Tracker  # it imports MLflow

                tracking = Tracker({**self.facts, "device": _name_device()}, self.steps["total_steps"])
        with tracking as tracker:
            yield StepRecorder(
                group=WorkerGroup(self.rendezvous),
                total_steps=self.steps["total_steps"],
                steps_per_epoch=self.steps["steps_per_epoch"],
                global_batch=self.settings.global_batch_size,
                tracker=tracker,
                progress=Progress(os.environ.get("WORLDSIZE_PROGRESS") if main else None),
                last_checkpoint=self._last_checkpoint,
                overflows=non_finite.MAX_OVERFLOWS if self.settings.precision == "fp16" else 0,
            )

    def inspector(self, network: Network) -> Callable[[int], None]:
        """Return the check of the weights before they are saved; called on every worker."""

        def inspect(done: int) -> None:
            with self.rendezvous.together():
                non_finite.expect_finite(network.trained, done, self._last_checkpoint, is_finite=_is_finite)

        return inspect

    def export(self, network: Network, saver: CheckpointSaver, final: Mapping[str, float], done: int) -> None:
        """Write the model of the best or the last step, on the leader; the others wait for it."""
        exported = saver.load_best(done) if self.settings.export == "best" else done
        values = read_weights(network, self.averages)
        with self.rendezvous.together():
            if self.cluster.is_main:
                print(describe_export(self.settings, self.controller, exported), flush=True)
                model = self.models.make()
                assign_weights(model, values)
                card = {
                    **run_facts.model_facts(self.facts, self.manifest),
                    "steps_done": done,
                    "final": dict(final),
                }
                card |= {"exported_step": exported, **decision_facts(self.controller, exported)}
                program = export.Program(model, self.samples)
                folder, shards = self.settings.trained_model, self.settings.shards
                export.save_model(program, self.samples, folder, card, shards)

    def _last_checkpoint(self) -> str | None:
        return non_finite.last_checkpoint_name(self.settings.checkpoints)

    def _sample(self) -> np.ndarray[Any, Any] | None:
        if self.samples.reads_tokens:
            return None
        features, _ = self.reader.gather(self.sampler.some_rows(self.samples.limit_rows(SAMPLE_ROWS)))
        sample: np.ndarray[Any, Any] = encode_inputs(self.samples, np.asarray(features)).numpy()
        return sample


def _name_device() -> str:
    """What the driver calls the first GPU; ``cpu`` without one."""
    gpus = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {"device_name": "cpu"}
    return str(details.get("device_name", "unknown"))


def _read_task(settings: Settings, manifest: Manifest) -> Task:
    hooks = load_hooks(settings.model)
    task = make_task(read_sample_spec(manifest), hooks, settings.label_smoothing)
    expect_task_fits(settings, task, hooks)
    if settings.mixup_alpha and task.encoding is not None:
        raise UserError(
            f"`mixup_alpha` is {settings.mixup_alpha:g}, but the table has columns that the model encodes",
            "set `mixup_alpha` to 0, or use `train_ddp`, which mixes what is encoded",
        )
    return task


def _is_finite(variable: Any) -> bool:
    return bool(np.isfinite(variable.numpy()).all())


def expect_replicas(strategy: Any, settings: Settings) -> None:
    """Compare the planned world size with the replicas that the machines' devices make.

    Raises:
        UserError: they differ.
    """
    replicas = strategy.num_replicas_in_sync
    if replicas != settings.world_size:
        raise UserError(
            f"the plan is for {settings.world_size} replicas but the workers' GPUs make {replicas}",
            "plan for the `instance_type` that the cluster has",
        )
