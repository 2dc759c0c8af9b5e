"""One rank of the benchmark of training loops: `train_loops.py MODEL SHARDS` in the launcher's environment.

The plain loop holds all rows in memory and picks micro-batches by index; it has no schedule, no metrics, no
checkpoints, and exchanges gradients once a step. Ours reads the shards by memory map, averages each step's
loss over ranks, logs it to MLflow and follows the schedule.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from wsshards.errors import end_process
from wsshards.reader import ShardReader
from wstrain.data.sampler import GlobalBatchSampler
from wstrain.health import watchdog
from wstrain.launch.environment import read_pytorch_environment
from wstrain.lr_schedule import LearningRateSchedule
from wstrain.settings import OptimizerOptions
from wstrain.tracking.mlflow_tracker import Tracker
from wstrain.tracking.step_recorder import Progress, StepRecorder
from wstrain_torch import compute_clock, loop, models, strategies
from wstrain_torch.data import BatchLoader, make_task
from wstrain_torch.launch.process_group import TORCH_DISTRIBUTED, Group
from wstrain_torch.precision import Precision
from wstrain_torch.strategies import UpdateSettings

STRETCH = 10  # steps of one loop before the other takes its turn
TURNS = 15
RATE = 0.001  # the same for both, as weights that fit the data too well meet denormal numbers, which are slow
CASES = {"cnn": (32, 4, "sgd"), "gpt": (16, 1, "adamw")}  # micro-batch, accumulation, optimizer


class Setting:
    """What both loops share."""

    def __init__(self, model: str, shards: str, group: Group) -> None:
        self.model = model
        self.batch, self.accumulation, self.optimizer = CASES[model]
        self.group = group
        self.rank = self.group.launch.rank
        self.size = 2 * self.batch * self.accumulation
        self.reader = ShardReader(shards, "train")
        manifest = self.reader.manifest
        classes = len(manifest.label.classes) if manifest.label else 0
        self.task = make_task(manifest.task, manifest.features.shape, manifest.features.dtype, classes)
        self.rows = self.task.prepare(*self.reader.gather(np.arange(len(self.reader))))
        self.sample = self.rows[0][:2048] if classes else None

    def network(self) -> torch.nn.Module:
        torch.manual_seed(0)
        return models.build_model(self.model, self.task, models.ModelOptions(), sample=self.sample)


def plain_loop(setting: Setting) -> Callable[[int], None]:
    """Return the peer: train `STRETCH` steps from a given one."""
    model = DistributedDataParallel(setting.network(), gradient_as_bucket_view=True)
    if setting.optimizer == "sgd":
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, fused=True)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    inputs, targets = setting.rows
    per_epoch = len(inputs) // setting.size
    share = setting.size // 2

    def train(start: int) -> None:
        for step in range(start, start + STRETCH):
            epoch, number = divmod(step, per_epoch)
            order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
            mine = order[number * setting.size + setting.rank * share :][:share]
            for micro, rows in enumerate(mine.split(setting.batch)):
                with nullcontext() if micro == setting.accumulation - 1 else model.no_sync():
                    loss = setting.task.loss(model(inputs[rows]), targets[rows]) / setting.accumulation
                    loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return train


def our_loop(
    setting: Setting, tracker: Tracker | None, strategy_name: str, **options: str
) -> Callable[[int], None]:
    """Return ours: train `STRETCH` steps from a given one."""
    steps = STRETCH * (TURNS + 1)
    group, precision = setting.group, Precision("fp32", setting.group.device)
    updates = UpdateSettings(
        OptimizerOptions(setting.optimizer),
        precision,
        micro_batch=setting.batch,
        accumulation=setting.accumulation,
        options=options,
    )
    strategy = strategies.build_strategy(strategy_name, setting.network(), updates, group)
    sampler = GlobalBatchSampler(len(setting.reader), setting.size, seed=0)
    batches = BatchLoader(
        setting.reader,
        sampler,
        setting.task,
        setting.rank,
        2,
        setting.accumulation,
        group.device,
        workers=0,
    )
    per_epoch = len(setting.reader) // setting.size
    heartbeat, _ = watchdog.start_watchdog(group.launch, 0.0, communication=TORCH_DISTRIBUTED)
    common: dict[str, Any] = {
        "strategy": strategy,
        "objective": strategies.Objective(setting.task, precision),
        "batches": batches.stream(0, steps),
        "schedule": LearningRateSchedule(RATE, RATE, 10, steps, "constant"),
        "recorder": StepRecorder(group, steps, per_epoch, setting.size, tracker, Progress(None), heartbeat),
        "validator": NoValidator(),
        "saver": NoSaver(),
        "heartbeat": heartbeat,
    }
    compute_clock.attach_compute_clock(heartbeat, strategy.model, group.device)

    def train(start: int) -> None:
        loop.train_steps(
            loop.StepRange(
                start, start + STRETCH, setting.accumulation, setting.rank, seed=0, own_code=False
            ),
            **common,
        )

    return train


class NoValidator:
    """Validates nothing: neither does the peer."""

    def step(self, done: int) -> bool:
        """Go on."""
        del done
        return False


class NoSaver:
    """Keeps nothing: the peer writes no checkpoints either."""

    def step(self, done: int) -> None:
        """Do nothing."""


def compare(setting: Setting, plain: Callable[[int], None], strategy: str, **options: str) -> None:
    """Let both loops take turns; rank 0 prints our speed and its ratio to the peer's."""
    with Tracker({}, STRETCH * TURNS) if setting.rank == 0 else nullcontext() as tracker:
        ours = our_loop(setting, tracker, strategy, **options)
        seconds: list[tuple[float, float]] = []
        for turn in range(TURNS + 1):
            first, second = (plain, ours) if turn % 2 else (ours, plain)
            times = {loop: clocked(loop, turn, setting.group) for loop in (first, second)}
            seconds.append((times[plain], times[ours]))
    del seconds[0]  # it warmed up
    if setting.rank == 0:
        ratio = statistics.median(theirs / own for theirs, own in seconds)
        speed = STRETCH * setting.size / statistics.median(own for _, own in seconds)
        print(
            f"{setting.model}: {speed:,.0f} samples/s in our loop, over a plain {strategy} loop {ratio:.3f}"
        )
    setting.group.leave()


def clocked(train: Callable[[int], None], turn: int, group: Group) -> float:
    """Seconds of one stretch, from the moment all ranks start to the moment all have ended."""
    group.gather(None)
    began = time.perf_counter()
    train(turn * STRETCH)
    group.gather(None)
    return time.perf_counter() - began


def main() -> None:
    """Compare with plain DDP."""
    setting = Setting(*sys.argv[1:], group=Group(read_pytorch_environment(os.environ)))
    compare(setting, plain_loop(setting), "wstrain_ddp.ddp")


if __name__ == "__main__":
    main()
    end_process(0)
