"""What a checkpoint costs a training: the time it waits for one, and what is left of its speed.

A network of 25 million parameters with AdamW, one process. The peer of the first number is a plain
`torch.save` of the same state, which flushes nothing; of the second, the same training without checkpoints,
in turns of 30 seconds, of which every other begins with a checkpoint.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

from torch import nn  # noqa: E402

from wstrain.checkpoint.checkpoint_folder import Retention  # noqa: E402
from wstrain.checkpoint.save_policy import SavePolicy  # noqa: E402
from wstrain.checkpoint.saver import BackgroundWriter  # noqa: E402
from wstrain.launch.environment import read_pytorch_environment  # noqa: E402
from wstrain.settings import OptimizerOptions  # noqa: E402
from wstrain_torch import strategies  # noqa: E402
from wstrain_torch.checkpoint.saver import CheckpointSaver  # noqa: E402
from wstrain_torch.launch.process_group import Group  # noqa: E402
from wstrain_torch.precision import Precision  # noqa: E402
from wstrain_torch.strategies import MicroBatches, UpdateSettings  # noqa: E402

WIDTH, DEPTH = 2048, 6  # 25.2 million parameters
SAVES = 7
SECONDS, PAIRS = 30.0, 4


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[Any, Callable[[int], Any], CheckpointSaver]]:
    group = Group(read_pytorch_environment({}))
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)))
    precision = Precision("fp32", group.device)
    strategy = strategies.build_strategy(
        "wstrain_ddp.ddp", model, UpdateSettings(OptimizerOptions("adamw"), precision), group
    )
    inputs = torch.randn(32, WIDTH)

    def objective(network: Any, inputs: Any, _targets: Any) -> Any:
        return network(inputs).square().mean()

    def step(number: int) -> Any:
        loss = strategy.gradients(
            MicroBatches(1, iter([(inputs, inputs)]), torch.manual_seed),
            objective,  # type: ignore[arg-type]
        )
        strategy.update(1e-5)
        group.average([loss], 0.0)
        return number

    saver = CheckpointSaver(
        folder=tmp_path / "checkpoints",
        group=group,
        strategy=strategy,
        identity={},
        save_policy=SavePolicy(),
        keep=Retention(1),
        background=BackgroundWriter(),
    )
    step(0)
    yield strategy, step, saver
    saver.finish()


def test_the_wait_for_a_checkpoint(parts: Any, tmp_path: Path) -> None:
    strategy, step, saver = parts
    waits: list[tuple[float, float]] = []
    for number in range(SAVES):
        began = time.perf_counter()
        torch.save(strategy.state(), tmp_path / "plain.pt")
        plain = time.perf_counter() - began
        saver.finish()
        began = time.perf_counter()
        saver.save(number + 1)
        waits.append((plain, time.perf_counter() - began))
        step(number)
    print(f"\nfirst save: waited {waits[0][1]:.3f} s, plain torch.save {waits[0][0]:.3f} s")
    plain, ours = (statistics.median(times) for times in zip(*waits[1:], strict=True))
    ratio = statistics.median(own / theirs for theirs, own in waits[1:])
    print(f"later saves: waited {ours:.3f} s, plain torch.save {plain:.3f} s, ratio {ratio:.3f}")
    assert ratio <= 0.2


def test_the_speed_of_a_training_that_writes_one_every_30_seconds(parts: Any, tmp_path: Path) -> None:
    _, step, saver = parts
    numbers = count(1)

    def turn(save: bool) -> float:
        began, steps = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < SECONDS:
            if save and not steps:
                saver.save(next(numbers))
            step(next(numbers))
            saver._update_status()
            steps += 1
        return steps / passed

    turn(save=True)  # it warms up
    ratios: list[float] = []
    for pair in range(PAIRS):
        speeds = {save: turn(save) for save in ((True, False) if pair % 2 else (False, True))}
        ratios.append(speeds[True] / speeds[False])
        print(f"\n{speeds[True]:.2f} steps/s with, {speeds[False]:.2f} without, ratio {ratios[-1]:.3f}")
    print(f"speed with checkpoints over speed without: {statistics.median(ratios):.3f}")
    shutil.rmtree(saver.folder)
    assert statistics.median(ratios) >= 0.97
