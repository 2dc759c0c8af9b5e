"""The speed that a training reported, with the inputs it had: as a measurement, or beside a prediction.

It measures a known workload, and is comparable with the predicted speed only on what that was predicted for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml import literals
from worldsize.base.problem import HelpfulError
from worldsize.base.wording import join_words, plural
from worldsize.facts import gpus, vm_sizes
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned
from worldsize.planning.estimates import processes
from worldsize.planning.estimates.built_in import find_fsdp_stage, read_precision, read_strategy
from worldsize.planning.estimates.calibrate import calibrate
from worldsize.planning.estimates.calibration import (
    NOT_CALIBRATED,
    Calibration,
    Measurement,
    Speed,
    ran_without_gpus,
)
from worldsize.planning.estimates.clusters import describe_cluster, explain_no_gpu, find_gpu
from worldsize.planning.estimates.model import Case, Cluster, Training
from worldsize.planning.estimates.prediction import Prediction, read_prediction
from worldsize.spec.workload import Transformer, Workload


class MeasuredRun(Struct, frozen=True):
    """A run that the user names, and its speed."""

    name: str
    speed: Speed
    step: str | None = None  # that trained; None where only one can have
    workload: Workload | None = None  # that it trained; None for the workload in question


class UnusableRunError(HelpfulError):
    """A run from which nothing follows for the workload; the message has the reason."""


class _Trained(Struct):
    """What ``tests/gpu/prove.py`` notes of one training: its network, and what its trainer logs."""

    workload: Transformer
    samples_per_second: float
    parameters: dict[str, str]
    deviation: float = 0.0


class _Trainings(Struct):
    measured: list[_Trained] = []


class _Checks(Struct):
    speed: _Trainings = msgspec.field(default_factory=_Trainings)


class _CardFile(Struct):
    checks: _Checks


def read_card_file(name: str, document: object) -> list[MeasuredRun]:
    """The trainings that ``tests/gpu/prove.py`` has measured on a card, from what its ``gpu.json`` holds.

    Raises:
        UnusableRunError: It holds something else, no speed, or speeds of a card that is not known.
    """
    try:
        trainings = msgspec.convert(document, _CardFile).checks.speed.measured
    except msgspec.ValidationError as error:
        raise UnusableRunError(f"`{name}` is not a file that tests/gpu/prove.py writes: {error}") from None
    if not trainings:
        raise UnusableRunError(f"`{name}` has no speed: its check `speed` was not reached, or failed")
    return [_read_trained(name, trained) for trained in trainings]


def _read_trained(name: str, trained: _Trained) -> MeasuredRun:
    speed = Speed(trained.samples_per_second, trained.deviation, trained.parameters)
    if not ran_without_gpus(speed):
        product = trained.parameters.get("device", "")
        gpu = gpus.lookup_product(product)
        if gpu is None:
            raise UnusableRunError(f"`{name}` was measured on `{product}`, of which no speed is known")
        speed = replace(speed, gpu=gpu.name)
    return MeasuredRun(name, speed, workload=trained.workload)


def measure_from_run(
    workload: Workload,
    speed: Speed,
    *,
    learned: Learned = NOT_LEARNED,
    cores: int | None = None,
    link_bytes_per_s: float | None = None,
) -> Measurement:
    """A run of a trainer as a measurement of ``workload``, which it must have trained.

    Args:
        workload: What the run trained.
        speed: Its speed and inputs, as trainers log them to MLflow.
        learned: VM sizes that the project describes.
        cores: Those that the ranks shared if the run had no GPU; None if it ran elsewhere.
        link_bytes_per_s: Of each rank's link if the run had no GPU.

    Raises:
        UnusableRunError: The speed is not positive, or an input that the question needs is missing.
    """
    if not (math.isfinite(speed.samples_per_second) and speed.samples_per_second > 0):
        raise UnusableRunError("it reported no speed")
    ranks = _read_count(speed, "world_size")
    if ran_without_gpus(speed):
        if cores is None:
            raise UnusableRunError("it ran without GPUs")
        cluster = processes.make_cluster(ranks, cores, link_bytes_per_s)
    elif speed.gpu is not None and (gpu := gpus.lookup(speed.gpu)) is not None:
        cluster = describe_cluster(gpu, None, gpus_per_instance=ranks, instance_count=1)
    else:
        cluster = _find_cluster(speed, ranks, learned)
    case = Case(workload, _read_training(speed), cluster)
    ways = case.training.tensor_parallel * case.training.pipeline_parallel
    if ranks % ways or case.training.precision not in cluster.gpu.peak_flops:
        raise UnusableRunError(f"its {ranks} ranks of {cluster.gpu.name} cannot have trained so")
    return Measurement(case, case.global_batch / speed.samples_per_second, speed.deviation)


def calibrate_from_runs(
    workload: Workload, runs: Sequence[MeasuredRun], learned: Learned = NOT_LEARNED
) -> Calibration:
    """The calibration of a workload by runs that trained it on GPUs; no runs calibrate nothing.

    Raises:
        UnusableRunError: A run tells nothing; the message names it.
    """
    measured = [_measure_named_run(workload, run, learned) for run in runs]
    try:
        return calibrate(measured) if measured else NOT_CALIBRATED
    except ValueError as error:  # a link between its GPUs is not known
        raise UnusableRunError(f"the runs tell nothing of this workload: {error}") from None


def choose_runs(runs: Sequence[MeasuredRun], step: str, trainings: Collection[str]) -> list[MeasuredRun]:
    """The runs that trained a step of a spec: all if it is the only training, else by the step's name.

    Those of a workload of their own tell something of any step.

    Raises:
        UnusableRunError: The spec has several trainings, and a run is of none of them.
    """
    if len(trainings) == 1:
        return list(runs)
    for run in runs:
        if run.step not in trainings and run.workload is None:
            trained = f"trained step `{run.step}`" if run.step else "names no step"
            names = join_words([f"`{name}`" for name in trainings])
            raise UnusableRunError(f"`{run.name}` {trained}: name a run of {names}, which train here")
    return [run for run in runs if run.step == step or run.workload is not None]


def _measure_named_run(workload: Workload, run: MeasuredRun, learned: Learned) -> Measurement:
    try:
        return measure_from_run(run.workload or workload, run.speed, learned=learned)
    except UnusableRunError as error:
        raise UnusableRunError(f"`{run.name}` tells nothing of this workload: {error}") from None


def _find_cluster(speed: Speed, ranks: int, learned: Learned) -> Cluster:
    name = speed.parameters.get("planned_instance_type")
    size = vm_sizes.lookup(name, learned) if name else None
    if size is None:
        raise UnusableRunError(
            f"its VM size `{name}` is not known" if name else "its VM size was not recorded"
        )
    gpu = find_gpu(size)
    if gpu is None:
        raise UnusableRunError(explain_no_gpu(size))
    count = min(ranks, size.devices)
    if ranks % count:
        raise UnusableRunError(f"its {ranks} ranks do not divide into instances of {count}")
    return describe_cluster(gpu, size, gpus_per_instance=count, instance_count=ranks // count)


def _read_training(speed: Speed) -> Training:
    inputs = speed.parameters
    strategy = read_strategy(inputs.get("strategy", ""))
    stage = find_fsdp_stage(inputs.get("fsdp_reshard", ""))
    if strategy == "deepspeed":
        stage = _read_count(speed, "zero_stage", 2)
    return Training(
        micro_batch=_read_count(speed, "batch_size_per_device"),
        accumulation=max(1, _read_count(speed, "gradient_accumulation_steps", 1)),
        precision=read_precision(inputs.get("precision", "")),
        strategy=strategy,
        zero_stage=stage if strategy in ("fsdp", "deepspeed") else 0,
        recomputation="none" if inputs.get("activation_checkpointing", "none") == "none" else "full",
        optimizer=inputs.get("optimizer", "adamw"),
        tensor_parallel=_read_count(speed, "tensor_parallel_size", 1),
        pipeline_parallel=_read_count(speed, "pipeline_parallel_size", 1),
    )


def _read_count(speed: Speed, name: str, default: int | None = None) -> int:
    """A count of the run's inputs, 0 or more; ranks and samples are at least 1."""
    text: Any = speed.parameters.get(name)
    number = literals.parse_number(text) if text is not None else default
    if number is None or number != int(number) or number < (1 if default is None else 0):
        raise UnusableRunError(
            f"its `{name}` was not recorded" if text is None else f"its `{name}` is `{text}`"
        )
    return int(number)


class ComparedSpeed(Struct, frozen=True):
    """The speed of a training step beside the prediction; ``ran_there`` is whether it ran as planned."""

    measured: float  # samples a second
    prediction: Prediction | None
    ran_there: bool

    @property
    def ratio(self) -> float | None:
        """Measured over predicted speed; None where they cannot be compared."""
        if self.prediction is None or not self.ran_there:
            return None
        return self.measured / self.prediction.samples_per_second.expected

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured speed is within the predicted bounds; None where they cannot be compared."""
        if self.prediction is None or not self.ran_there:
            return None
        bounds = self.prediction.samples_per_second
        return bounds.low <= self.measured <= bounds.high


def compare_speed(speed: Speed) -> ComparedSpeed:
    """The speed of a step beside the prediction among its inputs.

    They are comparable if the step ran on as many GPUs as were planned, of the planned kind.
    """
    prediction = read_prediction(speed.parameters)
    ran_there = prediction is not None and _ran_as_planned(speed, prediction)
    return ComparedSpeed(speed.samples_per_second, prediction, ran_there)


def _ran_as_planned(speed: Speed, prediction: Prediction) -> bool:
    parameters = {**speed.parameters, **({"device": speed.gpu} if speed.gpu else {})}
    return describe_other_hardware(parameters, prediction.instance_type, prediction.world_size) == ""


def describe_other_hardware(parameters: Mapping[str, str], instance_type: str, ranks: int | None) -> str:
    """Why a training tells nothing of what was planned: ``ran on CPU``; empty if it ran as planned.

    Args:
        parameters: What the trainer logged, with its ``device`` and ``world_size``.
        instance_type: The planned VM size.
        ranks: The planned processes; None for any count.
    """
    size = vm_sizes.lookup(instance_type)
    planned = find_gpu(size) if size is not None else None
    device = parameters.get("device", "")
    if device.lower() == "cpu":
        return "ran on CPU"
    used = gpus.lookup_product(device) or gpus.lookup(device)
    if planned is None or used is None:
        return f"ran on {device}" if device else "the hardware was not recorded"
    if used.name != planned.name:
        return f"ran on {used.name}, planned for {planned.name}"
    started = literals.parse_number(parameters.get("world_size", ""))
    if ranks is not None and started != ranks:
        return f"planned for {plural(ranks, 'process')}"
    return ""
