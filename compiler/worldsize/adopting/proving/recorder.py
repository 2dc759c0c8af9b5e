"""Runs a script and records the loss of each of its steps, and which samples it was computed from.

The script is not changed: the recorder wraps ``torch.Tensor.backward``, where Accelerate, Lightning and the
Trainer of Hugging Face end too, or Keras' ``fit``. A script that replays reads the samples of each batch in
the order in which the processes of another recording read theirs together, so that both follow one order.

The program of a process: ``python recorder.py SCRIPT ARGUMENTS…`` with the settings in ``WORLDSIZE_PROOF``.
It imports the standard library, what is beside it, and the script's framework only.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import runpy
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TextIO

SETTINGS = "WORLDSIZE_PROOF"
DONE = ".done"
SEED = 0
WAIT_SECONDS = 20.0  # for the other processes to reach their last step
ENDING_SECONDS = 30.0  # from the last step to the end of its epoch
ENDING_BATCHES = 10  # that each other loader gives on the way there


class Recording:
    """The file to which one process writes its losses and draws, a line of JSON each."""

    def __init__(self, folder: str, rank: int, world_size: int, steps: int) -> None:
        self._folder, self.world_size, self._steps = folder, world_size, steps
        self._path = os.path.join(folder, f"{rank}.jsonl")
        self._file: TextIO = open(self._path, "w", buffering=1, encoding="utf-8")
        self.count = 0
        self.passed = False  # whether a step has followed the end of an epoch

    @property
    def is_full(self) -> bool:
        """Whether all steps are recorded."""
        return self.count >= self._steps

    def write(self, **entry: object) -> None:
        """Append one entry."""
        if not self._file.closed:
            self._file.write(json.dumps(entry) + "\n")

    def add_loss(self, loss: float) -> None:
        """Append the loss of a step."""
        self.write(loss=loss)
        self.count += 1

    def finish(self) -> None:
        """End this process when all have come this far: the others still need the sums with its gradients."""
        self.write(passed=self.passed)
        self._file.close()
        open(self._path + DONE, "w").close()
        deadline = time.monotonic() + WAIT_SECONDS
        others = [os.path.join(self._folder, f"{rank}.jsonl{DONE}") for rank in range(self.world_size)]
        while time.monotonic() < deadline and not all(map(os.path.exists, others)):
            time.sleep(0.02)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class Ending:
    """Leads a training from its last recorded step to the end of its epoch, which validates and saves.

    The loader that trains gives no more batches, the others a few, until the first step of the next epoch.
    """

    def __init__(self, recording: Recording, *, ends: bool) -> None:
        self._recording, self._ends = recording, ends
        self._began = self._exhausted = self._left = False
        self._last: Any = None  # the sampler of the loader that gave the last batch
        self._trained: dict[int, Any] = {}  # the samplers of the loaders that train

    def add_step(self, loss: float) -> None:
        """A step is taken: record its loss; behind the last one, the process ends or the epoch does."""
        if self._last is not None:
            self._trained[id(self._last)] = self._last
        self._recording.passed |= self._left
        if not self._began:
            self._recording.add_loss(loss)
        if self._recording.is_full and (self._recording.passed or not (self._trained and self._ends)):
            self._recording.finish()
        if self._recording.is_full and not self._began:
            self._began = True
            late = threading.Timer(ENDING_SECONDS, self._recording.finish)
            late.daemon = True
            late.start()

    def watch(self, iterator: Any) -> None:
        """Notice the batches of loaders, and their ends."""
        take = iterator.__next__

        @wraps(take)
        def take_batch(this: Any) -> Any:
            try:
                batch = take(this)
            except StopIteration:
                self._exhausted |= id(this._index_sampler) in self._trained
                raise
            self._last = this._index_sampler
            self._left |= self._exhausted  # Accelerate takes a batch ahead of the step before
            return batch

        iterator.__next__ = take_batch

    def stops(self, iterator: Any) -> bool:
        """Whether an iterator gives no more batches."""
        if not self._began:
            return False
        if id(iterator._index_sampler) in self._trained:
            return not self._exhausted
        iterator._worldsize_read = iterator.__dict__.get("_worldsize_read", 0) + 1
        return bool(iterator._worldsize_read > ENDING_BATCHES)


class Gauge:
    """Counts the weights that are trained, and the operations of one forward pass.

    They are those between the second and the third step: the first may allocate and compile. A program that
    compiles its model is not counted.
    """

    COUNTED = 2

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._counter: Any = None
        self._compiles = False

    def before_backward(self) -> None:
        """The forward pass is over."""
        if self._counter is not None:
            self._counter.__exit__(None, None, None)
            self._recording.write(forward_flops=self._counter.get_total_flops())
            self._counter = None

    def after_backward(self) -> None:
        """The next forward pass will follow."""
        if self._recording.count == self.COUNTED and not self._compiles:
            from torch.utils.flop_counter import FlopCounterMode

            self._counter = FlopCounterMode(display=False)
            self._counter.__enter__()

    def watch_compiler(self, torch: Any) -> None:
        """Notice that a model is compiled."""
        compile_ = torch.compile

        @wraps(compile_)
        def compile_model(*args: Any, **kwargs: Any) -> Any:
            self._compiles = True
            return compile_(*args, **kwargs)

        torch.compile = compile_model

    def watch_optimizers(self, optimizer: Any) -> None:
        """Record how many weights an optimizer updates."""
        make = optimizer.__init__

        @wraps(make)
        def make_optimizer(this: Any, params: Any, *args: Any, **kwargs: Any) -> None:
            make(this, params, *args, **kwargs)
            weights = (one for group in this.param_groups for one in group["params"])
            self._recording.write(parameters=sum(one.numel() for one in weights if one.requires_grad))

        optimizer.__init__ = make_optimizer


def record_torch(recording: Recording, replayed: Sequence[str], *, ends: bool) -> None:
    """Wrap what a training in PyTorch calls.

    Args:
        recording: Where to.
        replayed: The recordings whose order is followed.
        ends: Whether to go on to the end of the epoch of the last step.
    """
    import torch
    from torch.utils.data import dataloader

    random.seed(SEED)
    torch.manual_seed(SEED)
    _seed_numpy()
    gauge = Gauge(recording)
    ending = Ending(recording, ends=ends)
    backward: Callable[..., Any] = torch.Tensor.backward
    scale: Callable[..., Any] = torch.amp.GradScaler.scale

    @wraps(backward)
    def record_backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        unscaled = getattr(tensor, "_worldsize_unscaled", tensor)
        if replayed:
            gauge.before_backward()
        ending.add_step(float(unscaled.detach().float().mean()))
        backward(tensor, *args, **kwargs)
        if replayed:
            gauge.after_backward()

    @wraps(scale)
    def remember_unscaled(scaler: Any, outputs: Any) -> Any:
        scaled = scale(scaler, outputs)
        if isinstance(scaled, torch.Tensor):
            scaled._worldsize_unscaled = outputs  # type: ignore[attr-defined]
        return scaled

    torch.Tensor.backward = record_backward  # type: ignore[assignment,method-assign]
    torch.amp.GradScaler.scale = remember_unscaled  # type: ignore[assignment,method-assign]
    if replayed:
        gauge.watch_optimizers(torch.optim.Optimizer)
        gauge.watch_compiler(torch)
    ending.watch(dataloader._BaseDataLoaderIter)
    wrap_draws(dataloader, Draws(recording, merge_draws(replayed)), ending.stops)


def _seed_numpy() -> None:
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(SEED)


def record_keras(recording: Recording) -> None:
    """Wrap ``fit`` of Keras' models: a callback of ours learns the loss of each batch.

    Both sides have Keras 2: ``fit`` of Keras 3 takes one worker only, and initialises weights otherwise.
    """
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    import tf_keras

    random.seed(SEED)
    _seed_numpy()
    tf_keras.utils.set_random_seed(SEED)
    _wrap_fit(recording, tf_keras.Model)


def _wrap_fit(recording: Recording, model: Any) -> None:
    fit = model.fit
    base = sys.modules[model.__module__.partition(".")[0]].callbacks.Callback

    class Recorder(base):  # type: ignore[misc,valid-type]
        """Keras tells the mean over the batches of an epoch so far: the loss of one is what it adds."""

        total = 0.0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.total = 0.0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            total = float((logs or {})["loss"]) * (batch + 1)
            # The workers' logs have the sum over all of them.
            recording.add_loss((total - self.total) / recording.world_size)
            if recording.is_full:
                recording.finish()
            self.total = total

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            recording.passed = True

    @wraps(fit)
    def record_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["callbacks"] = [*(kwargs.get("callbacks") or ()), Recorder()]
        return fit(self, *args, **kwargs)

    model.fit = record_fit


def find_rank() -> int:
    """The number of this process, by what its launcher has set."""
    if "TF_CONFIG" in os.environ:
        return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
    return int(os.environ.get("RANK", "0"))


class Notebook:
    """Takes the lines that only set up a notebook, which a script that was exported from one has."""

    def system(self, line: str) -> None:
        """``!mkdir -p out`` makes folders for what follows."""
        if line.startswith("mkdir "):
            for word in line.split()[1:]:
                if not word.startswith("-"):
                    os.makedirs(word.strip("'\""), exist_ok=True)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def record_script(settings: dict[str, Any], script: str, arguments: Sequence[str]) -> None:
    """Run a script as ``python SCRIPT ARGUMENTS…`` does, and record it.

    Args:
        settings: ``folder`` of the recordings, ``steps`` after which the process ends, ``world_size``,
            ``framework``, ``replay``, the recordings whose order of samples is followed, and ``module``,
            where ``python -m MODULE`` starts it in the folder of the package.
        script: The path of the script.
        arguments: Its command line.
    """
    recording = Recording(settings["folder"], find_rank(), settings["world_size"], settings["steps"])
    if settings["framework"] == "keras":
        record_keras(recording)
    else:
        record_torch(recording, settings["replay"], ends=settings["framework"] == "torch")
    sys.argv = [script, *arguments]
    builtins.get_ipython = Notebook  # type: ignore[attr-defined]
    builtins.display = print  # type: ignore[attr-defined]
    if settings.get("module"):
        sys.path[0] = os.getcwd()
        runpy.run_module(settings["module"], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


class Draws:
    """Which samples each shuffled loader draws: recorded, and taken from another recording if there is one.

    A loader is known by the number of its samples and its place among the shuffled loaders of that many.
    """

    def __init__(self, recording: Recording, replayed: dict[str, Any]) -> None:
        self._recording, self._replayed = recording, replayed
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # what `_names` refers to, so that no other object gets its id
        self._of_length: dict[int, int] = defaultdict(int)
        self._epochs: dict[str, int] = defaultdict(int)

    def drops_last(self, length: int) -> bool:
        """Whether the other recording leaves out the incomplete last batch of so many samples."""
        return length in self._replayed.get("drops_last", ())

    def start(self, sampler: Any, length: int) -> tuple[str, int, Iterator[list[int]] | None]:
        """A loader starts an epoch: its name, the number of the epoch, and its batches if they are given."""
        name = self._names.get(id(sampler))
        if name is None:
            name = self._names[id(sampler)] = f"{length}.{self._of_length[length]}"
            self._of_length[length] += 1
            self._kept.append(sampler)
            self._recording.write(
                loader=name,
                length=length,
                drop_last=bool(getattr(sampler, "drop_last", False)),
                replaces=bool(getattr(innermost_sampler(sampler), "replacement", False)),
            )
        epoch = self._epochs[name]
        self._epochs[name] += 1
        batches = self._replayed.get("batches", {}).get(f"{name}.{epoch}")
        return name, epoch, iter(batches) if batches is not None else None

    def add(self, name: str, epoch: int, indices: Any) -> None:
        """A batch has been drawn."""
        drawn = indices if isinstance(indices, list) else [indices]
        self._recording.write(draw=name, epoch=epoch, indices=[int(value) for value in drawn])


def innermost_sampler(sampler: Any) -> Any:
    """The sampler that orders the samples, below what cuts them into batches and deals these out."""
    for _ in range(5):
        inner = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
        if inner is None:
            break
        sampler = inner
    return sampler


def is_shuffled(sampler: Any) -> bool:
    """Whether the order differs from that of the data."""
    inner = innermost_sampler(sampler)
    return type(inner).__name__ != "SequentialSampler" and bool(getattr(inner, "shuffle", True))


def wrap_draws(dataloader: Any, draws: Draws, stops: Callable[[Any], bool]) -> None:
    """Record what the iterators of loaders draw, in the process that trains, until one ``stops``."""
    iterator = dataloader._BaseDataLoaderIter
    draw, reset, make = iterator._next_index, iterator._reset, dataloader.DataLoader.__init__

    @wraps(draw)
    def next_index(self: Any) -> Any:
        if stops(self):
            raise StopIteration
        started = self.__dict__.get("_worldsize_epoch")
        if started is None:
            started = self._worldsize_epoch = _start_epoch(self, draws)
        if not started:
            return draw(self)
        name, epoch, batches = started
        indices = next(batches) if batches is not None else draw(self)
        draws.add(name, epoch, indices)
        return indices

    @wraps(reset)
    def reset_iterator(self: Any, loader: Any, first_iter: bool = False) -> Any:
        if not first_iter:
            self._worldsize_epoch = None
        return reset(self, loader, first_iter)

    @wraps(make)
    def make_loader(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        sampler: Any = getattr(self, "batch_sampler", None)
        if hasattr(sampler, "drop_last") and is_shuffled(sampler) and draws.drops_last(_length(self.dataset)):
            sampler.drop_last = True

    iterator._next_index, iterator._reset = next_index, reset_iterator
    dataloader.DataLoader.__init__ = make_loader


def _start_epoch(iterator: Any, draws: Draws) -> Any:
    sampler = iterator._index_sampler
    length = _length(iterator._dataset)
    if not length or iterator._dataset_kind != 0 or not is_shuffled(sampler):
        return ()
    return draws.start(sampler, length)


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except TypeError:
        return 0


def merge_draws(paths: Sequence[str]) -> dict[str, Any]:
    """What the processes of a recording drew together: the global batches of each epoch of each loader.

    Returns:
        ``batches`` by loader and epoch, and ``drops_last``, the lengths of the data of loaders that leave out
        an incomplete last batch.
    """
    if not paths:
        return {}
    ranks, drops_last = [], set()
    for path in paths:
        batches: dict[str, list[list[int]]] = defaultdict(list)
        with open(path, encoding="utf-8") as file:
            for entry in map(json.loads, file.read().split("\n")[:-1]):  # the last may be incomplete
                if "draw" in entry:
                    batches[f"{entry['draw']}.{entry['epoch']}"].append(entry["indices"])
                elif entry.get("drop_last"):
                    drops_last.add(entry["length"])
        ranks.append(batches)
    merged = {
        name: [[index for part in parts for index in part] for parts in zip(*(rank[name] for rank in ranks))]  # noqa: B905
        for name in ranks[0]
        if all(name in rank for rank in ranks)
    }
    return {"batches": merged, "drops_last": drops_last}


if __name__ == "__main__":
    record_script(json.loads(os.environ[SETTINGS]), sys.argv[1], sys.argv[2:])
