"""The two loops that `speed.py` compares, each a process of its own.

`python loops.py entry ENTRY ARGUMENTS…` starts the entry script of a component without MLflow: the module
that tracks and the one that saves a model for MLflow are replaced before the script imports them; everything
else is the component's. Losses go to the file that `RECORD` names, as lines of JSON.

`python loops.py hand DEVICE ARGUMENTS…` is the hand-written loop, with the same network: `torch.compile` of
the network with its loss as in nanoGPT, flash attention by `scaled_dot_product_attention`, fused AdamW, bf16
autocast, rows that lie in memory; no schedule, no losses and no checkpoints.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import runpy
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

LONGEST = 15  # kernels of a profile
WINDOW_SECONDS = 1.0  # between two waits for the device, as ours has it


class Turns:
    """Lets two loops take turns on one GPU: a process waits until it is called, and says when it has had it.

    Args:
        text: descriptors to read and to write, such as `5,6`; empty for a process that never waits.
        stretch: seconds of a turn.
    """

    def __init__(self, text: str, stretch: float = 1.0) -> None:
        self._ends = [int(each) for each in text.split(",")] if text else []
        self._stretch = stretch
        self._seconds = 0.0
        self.taken = 0

    def pause(self, seconds: float) -> None:
        """Count the seconds that have just been trained; at the end of a turn, wait for the next."""
        self._seconds += seconds
        if self._ends and self._seconds >= self._stretch:
            self._seconds = 0.0
            os.write(self._ends[1], b".")
            if not os.read(self._ends[0], 1):
                os._exit(0)
            self.taken += 1


class Recorder:
    """Stands for the tracker of MLflow: writes what it is given to a file, and times each window of steps.

    A window is what a training reports at once. Its seconds end when its first step is reported, and begin
    when the last step of the window before has been: they do not hold the wait for a turn.
    """

    def __init__(self, parameters: Mapping[str, Any], total_steps: int) -> None:
        del total_steps
        self._file: IO[str] = Path(os.environ["RECORD"]).open(  # noqa: SIM115
            "a", buffering=1, encoding="utf-8"
        )
        self._turns = Turns(os.environ.get("TURNS", ""), float(os.environ.get("STRETCH", "1")))
        self._speed, self._steps, self._seconds = None, 0, 0.0
        self._resumed = time.perf_counter()
        self._profile: Any = None
        self.write(parameters={name: str(value) for name, value in parameters.items()})
        print("tracking is off: losses go to a file", flush=True)

    def __enter__(self) -> Recorder:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self._end_window()

    def log(self, step: int, values: Mapping[str, float], *, always: bool = False) -> None:
        """Write the values of one step."""
        del always
        if "samples_per_second" in values:
            self._note(values["samples_per_second"])
        self.write(step=step, **values, **_count_graphs())
        self._resumed = time.perf_counter()

    def log_lines(self, name: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Leave out the times of ranks."""

    def _note(self, speed: Any) -> None:
        if speed != self._speed:  # all steps of a window have one speed
            seconds = time.perf_counter() - self._resumed
            self._end_window()
            self._end_profile(seconds)
            self._speed, self._seconds, self._steps = speed, seconds, 0
            taken = self._turns.taken
            self._turns.pause(seconds)
            if self._turns.taken > taken and str(self._turns.taken) == os.environ.get("PROFILED_TURN"):
                self._begin_profile()
        self._steps += 1

    def _end_window(self) -> None:
        if self._steps:
            self.write(steps=self._steps, seconds=self._seconds)
        self._steps = 0

    def _begin_profile(self) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile

        on_gpu = torch.cuda.is_available()
        self._profile = profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU])
        self._profile.start()

    def _end_profile(self, seconds: float) -> None:
        """Record for which share of a window kernels ran, and which took longest, in milliseconds."""
        if self._profile is None:
            return
        self._profile.stop()
        times = {
            kernel.key: (kernel.self_device_time_total or kernel.self_cpu_time_total) / 1000
            for kernel in self._profile.key_averages()
        }
        longest = sorted(times, key=times.__getitem__, reverse=True)[:LONGEST]
        self.write(busy=sum(times.values()) / 1000 / seconds, kernels={name: times[name] for name in longest})
        self._profile = None

    def write(self, **entry: Any) -> None:
        """Append a record."""
        self._file.write(json.dumps(entry) + "\n")


def _count_graphs() -> dict[str, int]:
    """How often torch has compiled so far, if it has."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return {}
    counters = utils.counters
    return {"graphs": counters["stats"]["unique_graphs"], "breaks": sum(counters["graph_break"].values())}


def save_program(
    write: Any, loading_code: Path, samples: Any, folder: Path, *, artefact: str, **_: Any
) -> None:
    """Stands for what saves a model for MLflow: writes the exported program, and records what it weighs."""
    del loading_code, samples
    if os.environ.get("EXPORT") == "off":
        return
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / artefact)
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(torch.export.load(folder / artefact).state_dict.items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    with Path(os.environ["RECORD"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"weights": digest.hexdigest()}) + "\n")


def start_entry(arguments: list[str]) -> None:
    """Start the entry script of a component without MLflow.

    Variables: `RECORD` names the file for losses; `TURNS` and `STRETCH` are of :class:`Turns`, and the first
    window of the turn that `PROFILED_TURN` numbers is profiled; `EXPORT=off` saves no model;
    `DETERMINISTIC=1` asks for kernels that give the same bits again; `MEMORY_LIMIT` is how many bytes of
    addresses it may take beside torch; `COMPILE=eager` traces what is compiled, and generates no kernels.
    """
    import wstrain

    sys.modules["mlflow"] = None  # type: ignore[assignment]  # whoever imports it fails
    for name, content in (
        ("wstrain.tracking.mlflow_tracker", {"Tracker": Recorder}),
        ("wstrain.export", {"save_mlflow_model": save_program}),
    ):
        sys.modules[name] = module = types.ModuleType(name)
        vars(module).update(content)
    wstrain.export = sys.modules["wstrain.export"]
    _limit_memory(int(os.environ.get("MEMORY_LIMIT", "0")))
    if os.environ.get("DETERMINISTIC"):
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        import torch

        torch.use_deterministic_algorithms(True)
    if os.environ.get("COMPILE"):
        import torch

        torch.compile = functools.partial(torch.compile, backend=os.environ["COMPILE"])
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


def _limit_memory(size: int) -> None:
    if size:
        import resource

        import torch  # its libraries are not counted

        assert torch
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = size + pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def train_by_hand(arguments: list[str]) -> None:
    """Train as the command line of `train_ddp` says, in turns."""
    device, *flags = arguments
    given = {flag[2:]: value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
    import torch

    step, weights = _make_step(device, given)
    recorder = Recorder({}, 0)
    recorder.write(weights=weights)
    window = 1  # steps
    for number in range(1, sys.maxsize):
        began = time.perf_counter()
        for _ in range(window):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = (time.perf_counter() - began) / window
        for _ in range(window):
            recorder.log(number, {"samples_per_second": float(number)})
        window = min(max(round(WINDOW_SECONDS / seconds), 1), 100)


def _make_step(device: str, given: Mapping[str, str]) -> tuple[Callable[[], None], int]:
    """One optimizer step of the hand-written loop, and how many weights it trains."""
    import torch
    from torch.nn import functional

    from wsshards.reader import ShardReader
    from wstrain_torch import models
    from wstrain_torch.data import read_task
    from wstrain_torch.models.layers import ModelOptions

    reader = ShardReader(given["shards"], "train")
    torch.manual_seed(0)
    sizes = ModelOptions(*(int(given[f"gpt_{name}"]) for name in ("layers", "heads", "width")))
    with torch.device(device):
        model = models.build_model("gpt", read_task(reader.manifest), sizes, sample=None)

    def compute_loss(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        scores = model(inputs).float().flatten(0, 1)
        return functional.cross_entropy(scores, targets.flatten())

    loss_of = torch.compile(compute_loss) if given["compile"] == "true" else compute_loss
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.0, fused=True)
    micro, accumulation = int(given["batch_size_per_device"]), int(given["gradient_accumulation_steps"])
    batches = _draw_batches(reader, device, micro)

    def step() -> None:
        for _ in range(accumulation):
            inputs, targets = next(batches)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=given["precision"] == "bf16"):
                loss = loss_of(inputs, targets) / accumulation
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, sum(weight.numel() for weight in model.parameters())


def _draw_batches(reader: Any, device: str, micro: int) -> Iterator[tuple[Any, Any]]:
    """Inputs and targets, from rows in memory, in a new order for each epoch."""
    import numpy as np
    import torch

    rows, _ = reader.gather(np.arange(len(reader)))
    data = torch.from_numpy(rows).long()
    while True:
        order = torch.randperm(len(data))
        for chosen in order[: len(order) // micro * micro].split(micro):
            batch = data[chosen]
            if device == "cuda":
                batch = batch.pin_memory().to(device, non_blocking=True)
            yield batch[:, :-1].contiguous(), batch[:, 1:].contiguous()


if __name__ == "__main__":
    {"entry": start_entry, "hand": train_by_hand}[sys.argv[1]](sys.argv[2:])
