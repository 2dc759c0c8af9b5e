"""The host never waits for the device within a step, but where losses are read.

On a GPU the host runs ahead, and whatever needs a value from the device makes it wait. The calls that would
wait are the same on a CPU: a tracer sees every operator and every method of a tensor.
"""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

import torch.distributed as dist  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from wstrain.data.sampler import GlobalBatchSampler  # noqa: E402
from wstrain.health import watchdog  # noqa: E402
from wstrain.launch.environment import Launch  # noqa: E402
from wstrain.lr_schedule import LearningRateSchedule  # noqa: E402
from wstrain.settings import OptimizerOptions  # noqa: E402
from wstrain.tracking.step_recorder import Progress, StepRecorder  # noqa: E402
from wstrain_torch import compute_clock, data, loop, models, strategies  # noqa: E402
from wstrain_torch.launch.process_group import Group, SingleProcess  # noqa: E402
from wstrain_torch.precision import Precision  # noqa: E402
from wstrain_torch.strategies import Objective, UpdateSettings  # noqa: E402

STEPS, MICRO, ACCUMULATION = 6, 4, 2
TEXT = data.make_task("language_model", (33,), "uint8", 0)
PICTURES = data.make_task("classification", (1, 8, 8), "float32", 10)
TASKS = {"gpt": TEXT, "cnn": PICTURES}
# Methods that read a tensor on the host, whatever the device. Those that ask for one number, such as `float`
# and `if`, end in an operator that says so.
READS = {"cpu", "numpy", "tolist", "__array__", "__repr__", "__format__"}


def connect(device: Any) -> SingleProcess:
    """One rank that acts as if there were two, so that the strategies exchange gradients."""
    del device
    return SingleProcess()


class SyncPoints:
    """What would make the host wait for the device, within a context; ``found`` has where."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def note(self, what: str) -> None:
        frames = [frame for frame in traceback.extract_stack() if __file__ not in frame.filename]
        ours = [frame for frame in frames if "wstrain" in frame.filename] or frames
        self.found.append(f"{what} in {ours[-1].name}, line {ours[-1].lineno} of {ours[-1].filename}")

    def take(self) -> list[str]:
        found, self.found = self.found, []
        return found

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with contextlib.redirect_stdout(_Printed(self)), _Methods(self), _Operators(self):
            yield


class _Printed(io.StringIO):
    def __init__(self, points: SyncPoints) -> None:
        super().__init__()
        self._points = points

    def write(self, text: str) -> int:
        self._points.note(f"print of {text!r}")
        return len(text)


class _Methods(TorchFunctionMode):
    def __init__(self, points: SyncPoints) -> None:
        self._points = points

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = getattr(func, "__name__", ""), (*args[1:], *(kwargs or {}).values())
        # A `torch.device` is one that the code was given, here and on a GPU.
        if name in READS or (name == "to" and any(isinstance(value, str) for value in given)):
            self._points.note(f"Tensor.{name}")
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    def __init__(self, points: SyncPoints) -> None:
        super().__init__()
        self._points = points

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._waits(func, args):
            self._points.note(str(func))
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _waits(func: Any, args: Any) -> bool:
        if func is torch.ops.aten.lift_fresh.default:  # `torch.tensor`: a copy from memory that is not pinned
            return True
        if torch.Tag.data_dependent_output in func.tags:
            return True
        if torch.Tag.dynamic_output_shape not in func.tags:
            return False
        if "index" not in str(func):
            return True
        return any(isinstance(each, Tensor) and each.dtype in (torch.bool, torch.uint8) for each in args[1])


class Rows:
    """Random rows of a task."""

    def gather(self, indices: Any) -> tuple[Any, Any]:
        draw = np.random.default_rng(int(indices[0]))
        return draw.random((len(indices), 1, 8, 8), np.float32), indices % 10


class Texts:
    def gather(self, indices: Any) -> tuple[Any, Any]:
        return np.repeat(indices[:, None] % 251, 33, axis=1).astype(np.uint8), None


class Recorder:
    """A real recorder, whose own reads are counted apart."""

    def __init__(self, real: StepRecorder, points: SyncPoints) -> None:
        self.real, self.points = real, points
        self.within: list[str] = []
        self.reading: list[int] = []

    def step(self, step: int, loss: Tensor, learning_rate: float) -> None:
        self.within += self.points.take()
        self.real.step(step, loss, learning_rate)
        if self.points.take():
            self.reading.append(step)

    def finish(self) -> dict[str, float]:
        return {}


class Nothing:
    def step(self, done: int) -> Any:
        return None


def trained(model: str, strategy: str, objective: Callable[..., Objective] = Objective) -> Recorder:
    """Take steps of the real loop on one rank, which exchanges gradients with itself."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group = Group(Launch(0, 0, 2 if strategy == "ddp" else 1), __name__)
    task = TASKS[model]
    sample = None if model == "gpt" else torch.randn(8, 1, 8, 8)
    network = models.build_model(model, task, models.ModelOptions(2, 2, 32), sample=sample)
    precision = Precision("bf16" if model == "gpt" else "fp32", group.device)
    updates = UpdateSettings(
        OptimizerOptions("adamw" if model == "gpt" else "sgd"), precision, MICRO, ACCUMULATION,
        max_gradient_norm=0.5, ema_decay=0.9,
    )  # fmt: skip
    built = strategies.build_strategy(f"wstrain_ddp.{strategy}", network, updates, group)
    heartbeat, watching = watchdog.start_watchdog(group.launch, 0.0)
    if not built.sharded:
        compute_clock.attach_compute_clock(heartbeat, built.model, group.device)
    points = SyncPoints()
    real = StepRecorder(group, STEPS, STEPS, 2 * MICRO, None, Progress(None), heartbeat, window_seconds=60)
    recorder = Recorder(real, points)
    batches = data.BatchLoader(
        Texts() if model == "gpt" else Rows(),  # type: ignore[arg-type]
        GlobalBatchSampler(STEPS * MICRO * ACCUMULATION, MICRO * ACCUMULATION, seed=0),
        task, 0, 1, ACCUMULATION, group.device, workers=1,
    )  # fmt: skip
    with points():
        loop.train_steps(
            loop.StepRange(0, STEPS, ACCUMULATION, 0, seed=0),
            strategy=built,
            objective=objective(task, precision),
            batches=batches.stream(0, STEPS),
            schedule=LearningRateSchedule(0.01, 0.01, 1, STEPS, "constant"),
            recorder=recorder,
            validator=Nothing(),
            saver=Nothing(),
            heartbeat=heartbeat,
        )
    watching.close()
    return recorder


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize("model", ["cnn", "gpt"])
def test_a_step_never_waits_for_the_device(model: str, strategy: str) -> None:
    recorder = trained(model, strategy)
    assert recorder.within == []
    assert recorder.reading == [0]  # the first step is reported at once, and the window then is a minute


BAD: dict[str, Callable[[Tensor], object]] = {
    "item": lambda loss: loss.item(),
    "float": lambda loss: float(loss.detach()),
    "if": lambda loss: bool(loss > 0),
    "is_finite": lambda loss: bool(torch.isfinite(loss)),
    "cpu": lambda loss: loss.detach().cpu(),
    "to": lambda loss: loss.detach().to("cpu"),
    "numpy": lambda loss: loss.detach().numpy(),
    "print": print,
    "text": lambda loss: print("a step"),
    "nonzero": lambda loss: torch.ones(3).nonzero(),
    "mask": lambda loss: torch.ones(3)[torch.ones(3) > 0],
    "tensor": lambda loss: torch.tensor(3.0) + loss.detach(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_loss_that_waits_is_found_in_every_step(name: str) -> None:
    class Waiting(Objective):
        def __call__(self, model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
            loss = super().__call__(model, inputs, targets)
            BAD[name](loss)
            return loss

    recorder = trained("cnn", "ddp", Waiting)
    assert len(recorder.within) >= STEPS * ACCUMULATION
