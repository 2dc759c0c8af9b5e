"""The training from end to end: data, model, strategy, loop, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from wsshards.errors import Interrupted, UserError, print_warning
from wsshards.manifest import Manifest, read_manifest
from wsshards.reader import ShardReader
from wsshards.verify import verify_shards
from wstrain import run_facts
from wstrain.checkpoint.checkpoint_folder import Retention
from wstrain.checkpoint.saver import BackgroundWriter
from wstrain.class_weights import NONE, weigh_classes
from wstrain.data.augmentation import make_augmentation
from wstrain.data.mixup import make_mixup
from wstrain.data.sampler import GlobalBatchSampler
from wstrain.fine_tuning import is_hugging_face
from wstrain.health import memory, non_finite, watchdog
from wstrain.health.heartbeat import Heartbeat, Phase
from wstrain.hooks import load_hooks
from wstrain.launch import consistency
from wstrain.launch.environment import Launch
from wstrain.launch.gpus import planned_gpus
from wstrain.launch.mesh import Mesh
from wstrain.option_checks import expect_options_fit, expect_task_fits
from wstrain.settings import Settings
from wstrain.tracking.step_recorder import GPU_WINDOW_SECONDS, WINDOW_SECONDS, Progress, StepRecorder
from wstrain.validation import ValidationController, decision_facts, describe_export, make_controller
from wstrain_torch import (
    compilation,
    compute_clock,
    export,
    fine_tuning,
    hook_checks,
    loop,
    models,
    optimizers,
    strategies,
)
from wstrain_torch.checkpoint.saver import CheckpointSaver
from wstrain_torch.data import Batch, BatchLoader, Task, read_task
from wstrain_torch.launch.process_group import Group
from wstrain_torch.layer_rates import layer_rates
from wstrain_torch.models.layers import ModelOptions, recompute_blocks
from wstrain_torch.models.lora import merge_adapters
from wstrain_torch.precision import Precision, choose_precision
from wstrain_torch.strategies import Objective, Strategy, UpdateSettings
from wstrain_torch.validation import Validator

if TYPE_CHECKING:
    from wstrain.tracking.mlflow_tracker import Tracker

SAMPLE_ROWS = 2048  # training rows from which a model of numbers takes its input scale


class Modules(NamedTuple):
    """Full names of the modules that a component chooses.

    Attributes:
        communication: connects the ranks.
        strategy: distributes the model.
    """

    communication: str
    strategy: str


def train(settings: Settings, launch: Launch, mesh: Mesh, modules: Modules) -> None:
    """Train on this rank; rank 0 writes metrics, checkpoints and the model.

    Args:
        settings: the component's inputs.
        launch: which process this is.
        mesh: how ranks share the model and the data.
        modules: what distributes the training.
    """
    timeout = settings.hang_timeout
    with watchdog.watch_process(launch, timeout, communication=modules.communication) as heartbeat:
        _train(settings, launch, mesh, modules, heartbeat)


def _train(settings: Settings, launch: Launch, mesh: Mesh, modules: Modules, heartbeat: Heartbeat) -> None:
    manifest = read_manifest(settings.shards)
    steps = run_facts.count_steps(settings, manifest)
    expect_options_fit(settings)

    group = Group(launch, modules.communication, mesh, planned_gpus(settings))
    group.status.stop_on_sigterm()
    settings = _choose_by_device(settings, steps, group)
    facts = run_facts.collect_facts(settings, manifest, steps)
    _expect_consistency(group, settings, facts)
    with group.together():
        task = _read_task(settings, manifest)
        controller = make_controller(settings, manifest, steps, task.hooks)
        part = (group.local_rank, group.local_size)
        verify_shards(settings.shards, manifest, splits=_splits(controller), part=part)
        reader = ShardReader(settings.shards, "train", checksums=False)
        task = _weigh_classes(settings, task, reader, group.device)
        make_augmentation(settings.augmentation, manifest.features, settings.seed)  # fails now, if it does
        sampler = GlobalBatchSampler(manifest.train.rows, settings.global_batch_size, settings.seed)
        model = _build_model(settings, task, reader, sampler, main=group.is_main)
        precision = Precision(settings.precision, group.device)  # last, as it depends on the machine
        rates = layer_rates(model, settings.layer_learning_rate_decay)
    order = optimizers.parameter_order(model, rates)
    updates = _update_settings(settings, precision, rates)
    strategy = strategies.build_strategy(modules.strategy, model, updates, group)
    saver = _make_saver(settings, steps, facts, group, strategy, order=order)
    saver.controller = controller if controller.schedule.intervals else None
    start = saver.resume(settings.resume_from)
    stop = min(steps["total_steps"], settings.stop_after_steps or steps["total_steps"])
    if not strategy.sharded:
        compute_clock.attach_compute_clock(heartbeat, strategy.model, group.device)

    with group.together():
        tracking = _start_tracking(launch, {**facts, "device": group.device_name}, steps["total_steps"])
    with _leave_together(group), tracking as tracker:
        loader = _make_loader(settings, group, task, reader, sampler)
        recorder = _make_recorder(settings, steps, tracker, saver, heartbeat)
        saver.settle = recorder.settle
        validator = _make_validator(settings, controller, loader, recorder, saver, heartbeat=heartbeat)
        done, final = loop.train_steps(
            _make_range(settings, start, stop, group.replica),
            strategy=strategy,
            objective=_make_objective(settings, task, precision),
            batches=_watch_loader(group, loader, loader.stream(start, stop)),
            schedule=run_facts.make_schedule(settings, steps),
            recorder=recorder,
            validator=validator,
            saver=saver,
            heartbeat=heartbeat,
        )
        heartbeat.mark(Phase.SAVING)
        saver.save(done)
        saver.finish()
        _log_end(settings, group, saver, tracker, done)
        heartbeat.mark(Phase.EXPORTING)
        card = {**run_facts.model_facts(facts, manifest), "steps_done": done, "final": final}
        _export(settings, group, task, saver, card)
    group.leave()


def _choose_by_device(settings: Settings, steps: Mapping[str, int], group: Group) -> Settings:
    """Return settings without what only the device tells."""
    return replace(
        settings,
        precision=choose_precision(settings.precision, group.device),
        compile=compilation.choose_compile(settings, steps["total_steps"], group.device),
    )


def _make_objective(settings: Settings, task: Task, precision: Precision) -> Objective:
    own = task.hooks is not None and task.hooks.loss is not None
    compiled = compilation.compile_loss(task.loss) if settings.compile and not own else None
    return Objective(task, precision, compiled)


def _make_range(settings: Settings, start: int, stop: int, replica: int) -> loop.StepRange:
    own_code = settings.model not in models.BUILT_IN
    accumulation = settings.gradient_accumulation_steps
    return loop.StepRange(start, stop, accumulation, replica, settings.seed, own_code=own_code)


def _export(
    settings: Settings, group: Group, task: Task, saver: CheckpointSaver, card: Mapping[str, Any]
) -> None:
    """Export the best weights or the last ones; called on every rank."""
    done = card["steps_done"]
    exported = saver.load_best(done) if settings.export == "best" else done
    network = saver.strategy.whole_model()
    with group.together():
        if group.is_main:
            print(describe_export(settings, saver.controller, exported), flush=True)
            export.save_model(
                merge_adapters(network.cpu()),
                task,
                settings.trained_model,
                {**card, "exported_step": exported, **decision_facts(saver.controller, exported)},
                settings.shards,
            )


def _read_task(settings: Settings, manifest: Manifest) -> Task:
    hooks = load_hooks(settings.model)
    task = replace(read_task(manifest), hooks=hooks, label_smoothing=settings.label_smoothing)
    expect_task_fits(settings, task, hooks)
    return task


def _weigh_classes(settings: Settings, task: Task, reader: ShardReader, device: torch.device) -> Task:
    if settings.class_weights == NONE:
        return task
    weights = weigh_classes(settings.class_weights, task.names, reader.labels())
    return replace(task, class_weights=torch.tensor(weights, dtype=torch.float32, device=device))


def _splits(controller: ValidationController) -> tuple[str, ...]:
    return ("train", "validation") if controller.schedule.intervals else ("train",)


def _log_end(
    settings: Settings, group: Group, saver: CheckpointSaver, tracker: Tracker | None, done: int
) -> None:
    """Log what is known at the end; called on every rank."""
    values = memory.memory_metrics(group.device.type, settings.predicted_memory_bytes, group.gather)
    if tracker is None:
        return
    values |= {"checkpoints_written": float(saver.count), "checkpoint_seconds_waited": saver.blocked}
    best = saver.controller
    if best is not None and best.best_value is not None and best.best_step is not None:
        values |= {"best_step": float(best.best_step), f"best_validation_{best.metric}": best.best_value}
    tracker.log(done, values, always=True)


@contextmanager
def _leave_together(group: Group) -> Iterator[None]:
    """Let all ranks of an interrupted training end together: the first to end would fail the others."""
    try:
        yield
    except Interrupted:
        group.gather("stopped")
        group.leave()
        raise


def _expect_consistency(group: Group, settings: Settings, facts: Mapping[str, Any]) -> None:
    code = Path(sys.argv[0]).resolve().parent
    values = group.gather(consistency.fingerprint(code, settings.shards, facts))
    difference = consistency.describe_difference(values)
    if difference is not None:
        raise UserError(difference, "give every process the same code, shards and inputs")


def _build_model(
    settings: Settings, task: Task, reader: ShardReader, sampler: GlobalBatchSampler, *, main: bool
) -> nn.Module:
    torch.manual_seed(settings.seed)  # the same initial weights on every rank, at any world size
    sample: Tensor | None = None
    if not task.reads_tokens:
        features, _ = reader.gather(sampler.some_rows(task.limit_rows(SAMPLE_ROWS)))
        sample = task.inputs(np.asarray(features))
    options = ModelOptions(settings.gpt_layers, settings.gpt_heads, settings.gpt_width)
    if is_hugging_face(settings.model):
        model = fine_tuning.build_hugging_face(settings, task)
    else:
        model = models.build_model(
            settings.model, task, options, sample=sample, sync_batch_norm=settings.sync_batch_norm
        )
    if task.hooks is not None:
        hook_checks.expect_hooks(task, task.hooks, model, reader, sampler)
    if settings.model not in models.BUILT_IN:
        export.export_program(model, task)  # fails now rather than after the last epoch
    told = fine_tuning.prepare_fine_tuning(model, settings, task)
    if told and main:
        print("\n".join(told), flush=True)
    if settings.activation_checkpointing == "blocks":
        recompute_blocks(model)
    return model


def _update_settings(settings: Settings, precision: Precision, rates: Mapping[str, float]) -> UpdateSettings:
    return UpdateSettings(
        optimizer=replace(settings.optimizer_options, rates=rates),
        precision=precision,
        micro_batch=settings.batch_size_per_device,
        accumulation=settings.gradient_accumulation_steps,
        max_gradient_norm=settings.max_gradient_norm,
        unused_parameters=settings.model not in models.BUILT_IN,
        ema_decay=settings.ema_decay,
        compile=bool(settings.compile),
        options=settings.options,
    )


def _make_saver(
    settings: Settings,
    steps: Mapping[str, int],
    facts: Mapping[str, Any],
    group: Group,
    strategy: Strategy,
    *,
    order: Sequence[str],
) -> CheckpointSaver:
    return CheckpointSaver(
        folder=settings.checkpoints,
        group=group,
        strategy=strategy,
        identity=run_facts.training_identity(settings, facts),
        save_policy=run_facts.make_save_policy(settings, steps),
        keep=Retention(settings.keep_checkpoints, best=settings.keep_best or settings.export == "best"),
        background=BackgroundWriter(threaded=settings.checkpoint_async),
        order=order,
        about={"strategy": settings.strategy, "mesh": group.mesh._asdict()},
    )


def _make_loader(
    settings: Settings, group: Group, task: Task, reader: ShardReader, sampler: GlobalBatchSampler
) -> BatchLoader:
    features = reader.manifest.features
    augmentation = make_augmentation(settings.augmentation, features, settings.seed)
    decodes = features.encoded or augmentation is not None
    return BatchLoader(
        reader=reader,
        sampler=sampler,
        task=task,
        rank=group.replica,
        world_size=group.mesh.data,
        accumulation=settings.gradient_accumulation_steps,
        device=group.device,
        # Without a GPU the cores compute the model, so a loader thread would only take turns with it, unless
        # it decodes pictures.
        workers=settings.loader_workers if group.device.type == "cuda" or decodes else 0,
        augmentation=augmentation,
        mixup=make_mixup(settings.mixup_alpha, settings.seed, sampler),
    )


def _watch_loader(group: Group, loader: BatchLoader, batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches, with a warning if rank 0's GPU waits for them."""
    if group.device.type != "cuda" or not group.is_main:
        return batches
    return compute_clock.LoaderClock(batches, loader.workers, print_warning)


def _make_validator(
    settings: Settings,
    controller: ValidationController,
    loader: BatchLoader,
    recorder: StepRecorder,
    saver: CheckpointSaver,
    *,
    heartbeat: Heartbeat,
) -> Validator:
    return Validator(
        controller=controller,
        reader=ShardReader(settings.shards, "validation", checksums=False),
        samples=loader.task,
        hooks=loader.task.hooks,
        workers=loader.workers,
        strategy=saver.strategy,
        group=saver.group,
        recorder=recorder,
        saver=saver,
        heartbeat=heartbeat,
        rows_at_once=settings.batch_size_per_device,
    )


def _make_recorder(
    settings: Settings,
    steps: Mapping[str, int],
    tracker: Tracker | None,
    saver: CheckpointSaver,
    heartbeat: Heartbeat,
) -> StepRecorder:
    group = saver.group

    def last_checkpoint() -> str | None:
        saver.background.wait()  # the newest may not be on the disk yet
        return non_finite.last_checkpoint_name(settings.checkpoints)

    def inspect(done: int) -> None:
        with group.together():
            non_finite.expect_finite(
                saver.strategy.model.parameters(),
                done,
                last_checkpoint,
                is_finite=non_finite.tensor_is_finite,
            )

    return StepRecorder(
        group=group,
        total_steps=steps["total_steps"],
        steps_per_epoch=steps["steps_per_epoch"],
        global_batch=settings.global_batch_size,
        tracker=tracker,
        progress=Progress(os.environ.get("WORLDSIZE_PROGRESS") if group.is_main else None),
        heartbeat=heartbeat,
        last_checkpoint=last_checkpoint,
        overflows=non_finite.MAX_OVERFLOWS if settings.precision == "fp16" else 0,
        inspect=inspect,
        window_seconds=GPU_WINDOW_SECONDS if group.device.type == "cuda" else WINDOW_SECONDS,
    )


def _start_tracking(
    launch: Launch, facts: Mapping[str, Any], total_steps: int
) -> AbstractContextManager[Tracker | None]:
    if not launch.is_main:
        return nullcontext()
    from wstrain.tracking.mlflow_tracker import Tracker  # it imports MLflow

    return Tracker(facts, total_steps)
