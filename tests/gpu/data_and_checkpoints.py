"""Checks 7 and 9: whether the GPU waits for data, and whether a training goes on where it was interrupted."""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from memory_plans import build_resnet
from trainings import (
    TINY_VOCABULARY,
    Document,
    Started,
    Trial,
    add_shared_code,
    make_token_shards,
    shard,
    start_training,
    train,
    waiting_ranks,
)

MOST_WAITING = 0.03  # of a step's time, as of the warning in `wstrain_torch/compute_clock.py`
LEAST_FOR_ANOTHER = 35.0  # seconds
MOST_STALL = 0.2  # of a step, for a checkpoint that is written beside the training
STOPPED = 75  # the exit status of a training that was asked to stop, and has saved its state


def check_loader(trial: Trial) -> None:
    """The GPU waits less than 3 % of a step for tokens and for pictures that the cores decode, or says so."""
    told = trial.on_gpu("how long a GPU waits for data")
    cases = {
        "tokens": make_token_shards(trial, vocabulary=TINY_VOCABULARY),
        "pictures": _make_picture_shards(trial),
    }
    for name, shards in cases.items():
        loaded, repeated, rate, warned = _time_steps(trial, shards)
        waiting = max(0.0, 1 - repeated / loaded)
        trial.say(
            f"{name}: {waiting:.1%} of a step of {loaded * 1000:.1f} ms waits for data, {rate:,.0f}/s",
            **{f"waiting_{name}": waiting},
        )
        for sentence in warned:
            trial.say(f"{name}: the training says: {sentence}")
        if told and not warned:
            trial.expect(waiting < MOST_WAITING, f"unsaid, the GPU waits {waiting:.1%} of a step for {name}")


def _make_picture_shards(trial: Trial) -> Path:
    """Photographs of noise as JPEG, of two classes, which the loader's threads decode and augment."""
    import numpy as np
    from PIL import Image

    side, count = (32, 24) if trial.tiny else (256, 640)
    data, generator = trial.work / "photographs", np.random.default_rng(0)
    for number in range(count):
        folder = data / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(generator.integers(0, 256, (8, 8, 3), np.uint8))
        coarse.resize((side, side)).save(folder / f"{number}.jpg", quality=90)
    size = 16 if trial.tiny else 224
    options = {"format": "images", "image_storage": "jpeg", "image_size": size}
    return shard(trial, trial.work / "photograph-shards", data, **options)


def _time_steps(trial: Trial, shards: Path) -> tuple[float, float, float, list[str]]:
    """Seconds of a step with the loader's batches, and with the same few; samples a second; the warnings."""
    add_shared_code()
    from wsshards.reader import ShardReader
    from wstrain.data.augmentation import make_augmentation
    from wstrain.data.sampler import GlobalBatchSampler
    from wstrain.launch.environment import Launch
    from wstrain.settings import OptimizerOptions
    from wstrain_torch import data, models, strategies
    from wstrain_torch.compute_clock import LoaderClock
    from wstrain_torch.launch.process_group import Group
    from wstrain_torch.models.layers import ModelOptions
    from wstrain_torch.precision import Precision

    reader = ShardReader(shards, "train")
    task, group = data.read_task(reader.manifest), Group(Launch(0, 0, 1))
    pictures = not task.reads_tokens
    batch = 64 if pictures and not trial.tiny else 4
    sizes = ModelOptions(2, 2, 32) if trial.tiny else ModelOptions(12, 12, 768)
    model = build_resnet(task.outputs) if pictures else models.build_model("gpt", task, sizes, sample=None)
    precision = Precision("fp32" if trial.tiny else "bf16", group.device)
    updates = strategies.UpdateSettings(OptimizerOptions("sgd"), precision, micro_batch=batch)
    strategy = strategies.build_strategy("wstrain_ddp.ddp", model, updates, group)
    objective = strategies.Objective(task, precision)
    augmentation = make_augmentation("standard" if pictures else "none", reader.manifest.features, 0)
    loader = data.BatchLoader(
        reader,
        GlobalBatchSampler(reader.manifest.train.rows, batch, 0),
        task,
        0,
        1,
        1,
        group.device,
        workers=2 if trial.tiny else 16 if pictures else 1,
        augmentation=augmentation,
    )
    # The clock judges after 16 of every eighth step.
    warm, steps, fewer = (1, 3, 3) if trial.tiny else (8, 136, 32)

    def take(batches: Iterator[Any], steps: int) -> float:
        for number in range(warm + steps):
            if number == warm:
                _wait_for_gpu(trial)
                began = time.perf_counter()
            strategy.gradients(strategies.MicroBatches(1, batches, seed=lambda _: None), objective)
            strategy.update(1e-3)
        _wait_for_gpu(trial)
        return (time.perf_counter() - began) / steps

    few = list(islice(loader.stream(0, 4), 4))
    take(cycle(few), 1)  # kernels are chosen, and memory is taken
    warned: list[str] = []
    batches = loader.stream(0, warm + steps)
    loaded = take(
        LoaderClock(batches, loader.workers, warned.append) if group.device.type == "cuda" else batches,
        steps,
    )
    repeated = take(cycle(few), fewer)
    return loaded, repeated, batch / loaded, warned


def _wait_for_gpu(trial: Trial) -> None:
    if trial.device == "cuda":
        import torch

        torch.cuda.synchronize()


def check_resuming(trial: Trial) -> None:
    """A training that was asked to stop, then killed, ends with the very weights of one that ran through."""
    inputs = _describe(trial, *((2, 2, 32) if trial.tiny else (4, 8, 512)))
    stop = 24 if trial.tiny else 120
    inputs |= {"batch_size_per_device": 4, "stop_after_steps": stop, "checkpoint_every_steps": stop // 6}
    started = start_training(trial, inputs, DETERMINISTIC="1")
    with waiting_ranks(started):
        _interrupt(trial, inputs, started[0], stop)


def check_checkpoints(trial: Trial) -> None:
    """A checkpoint that is written in the background holds a training up for a fifth of a step at most."""
    # Twelve steps are long enough to write a checkpoint beside them: else the next one waits for the disk.
    large = _describe(trial, *((2, 2, 32) if trial.tiny else (12, 12, 768)))
    large |= {"batch_size_per_device": 4 if trial.tiny else 64, "gradient_accumulation_steps": 8}
    large |= {"stop_after_steps": 48, "checkpoint_every_steps": 12}
    _note_stalls(trial, "in the background", large)
    if trial.left > LEAST_FOR_ANOTHER or trial.tiny:
        _note_stalls(trial, "by waiting", large | {"checkpoint_async": False})


def _describe(trial: Trial, layers: int, heads: int, width: int) -> Document:
    shards = make_token_shards(trial, tokens=256, vocabulary=TINY_VOCABULARY, rows=910)
    inputs: Document = {"model": "gpt", "shards": shards, "optimizer": "adamw", "learning_rate": 0.001}
    inputs |= {"precision": "fp32" if trial.tiny else "bf16", "epochs": 500, "validate_every_epochs": 0}
    inputs |= {"gpt_layers": layers, "gpt_heads": heads, "gpt_width": width, "checkpoint_every_epochs": 0}
    return inputs


def _note_stalls(trial: Trial, how: str, inputs: Document) -> None:
    """How much longer the step after a checkpoint is; the first one also takes memory for copies."""
    ended = train(trial, inputs, EXPORT="off").expect_status()
    every, done, stalls = inputs["checkpoint_every_steps"], 0, []
    windows = ended.windows
    step = statistics.median(each["seconds"] / each["steps"] for each in windows[1:])
    for window in windows:
        first, done = done, done + window["steps"]
        if max(1, -(-first // every)) * every < done:  # a checkpoint was begun between its steps
            stalls.append(max(0.0, window["seconds"] - window["steps"] * step))
    later = statistics.median(stalls[1:] or stalls or [0.0])
    shown = f"{later * 1000:.0f} ms, {later / step:.2f} of a step"
    trial.say(f"a checkpoint {how} holds the training up {shown}", **{f"stalls {how}": stalls, "step": step})
    if how == "in the background" and trial.on_gpu("how long a checkpoint holds a GPU up"):
        trial.expect(
            later <= MOST_STALL * step,
            f"a checkpoint in the background holds up {later / step:.2f} of a step",
        )


def _interrupt(trial: Trial, inputs: Document, uninterrupted: Started, stop: int) -> None:
    folder = trial.work / "interrupted"
    # The module there sends the signal as the training asks for a batch.
    faults = str(Path(__file__).parents[1] / "components" / "faults")
    for name, step, status in (
        ("SIGTERM", stop // 3 + 1, STOPPED),
        ("SIGKILL", stop * 2 // 3 + 1, -signal.SIGKILL),
    ):
        fault = {"PYTHONPATH": faults, "FAULT": f"0 {step} {name}"}
        ended = train(trial, inputs, folder=folder, DETERMINISTIC="1", **fault)
        trial.expect(
            ended.status == status, f"after {name} the training ends with {ended.status}: {ended.said[-200:]}"
        )
    last = train(trial, inputs, folder=folder, DETERMINISTIC="1").expect_status()
    whole = uninterrupted.wait(trial.left).expect_status()
    same = last.find("weights") == whole.find("weights") and whole.find("weights") is not None
    trial.expect(same, "the resumed training ends with other weights")
    different = [step for step, loss in whole.losses.items() if last.losses.get(step) != loss]
    trial.expect(not different, f"losses differ after resuming, first at step {min(different, default=0)}")
    if same and not different:
        trial.say(f"stopped by SIGTERM and kill -9, a training of {stop} steps ends with the same bits")
