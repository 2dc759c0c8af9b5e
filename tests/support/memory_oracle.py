"""The peak memory of trainings by PyTorch's ``MemTracker``, beside what is planned for them.

    python tests/support/memory_oracle.py

Two steps of the real strategies. Where one rank trains alone, tensors are fake: they have shapes, no memory.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.testing._internal.distributed.fake_pg import FakeStore

from worldsize.planning.memory import built_in
from worldsize.planning.memory.estimate import estimate
from worldsize.planning.memory.network import Network, Setup
from worldsize.planning.memory.workload import Samples
from worldsize.resolving import imported_model, model_shapes
from wsshards.errors import end_process
from wstrain.launch.environment import Launch
from wstrain.settings import OptimizerOptions
from wstrain_torch import data as tasks
from wstrain_torch import models, strategies
from wstrain_torch.launch.process_group import Group
from wstrain_torch.models.layers import ModelOptions, recompute_blocks
from wstrain_torch.precision import Precision
from wstrain_torch.strategies import MicroBatches, Objective, UpdateSettings

OWN = '''
import torch
from torch import nn

class Bottleneck(nn.Module):
    """Of ResNet-50 (He et al. 2016)."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.straight = nn.Identity() if inputs == 4 * width and stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return torch.relu(self.straight(x) + self.body(x))

def resnet(input_shape, classes):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            layers.append(Bottleneck(inputs, width, stride if number == 0 else 1))
            inputs = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
    model.blocks = [layer for layer in layers if isinstance(layer, Bottleneck)]
    return model

class Encoder(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(6))
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))

def encoder(input_shape, classes):
    return Encoder(input_shape, classes)
'''
PICTURES, DIGITS, VECTORS = ((3, 224, 224), 1000), ((3, 32, 32), 10), ((128, 512), 10)
LARGE, MIDDLE = (1024, 12, 12, 768, 50304), (512, 4, 8, 512, 50304)  # as built_in.gpt takes them
SMALL = (128, 4, 4, 256, 256)
BF16: dict[str, Any] = {"precision": "bf16"}
SGD: dict[str, Any] = {"optimizer": "sgd", "micro_batch": 16}
# Name, model, its arguments, and what differs from one rank that trains with AdamW in fp32.
CASES: tuple[tuple[str, str, Any, dict[str, Any]], ...] = (
    ("gpt 124M", "gpt", LARGE, {}),
    ("gpt 124M, bf16, recomputed", "gpt", LARGE, {**BF16, "checkpointing": True}),
    ("gpt 64M, recomputed", "gpt", MIDDLE, {"checkpointing": True}),
    ("gpt 64M, bf16", "gpt", MIDDLE, BF16),
    ("gpt 64M, bf16, accumulated", "gpt", MIDDLE, {**BF16, "accumulation": 2}),
    ("gpt 3M, SGD", "gpt", SMALL, SGD),
    ("cnn, SGD", "cnn", PICTURES, SGD),
    ("cnn, bf16", "cnn", DIGITS, {**BF16, "micro_batch": 128}),
    ("mlp, SGD", "mlp", ((784,), 10), {**SGD, "micro_batch": 512}),
    ("ResNet-50, SGD", "resnet", PICTURES, SGD),
    ("6 × nn.TransformerEncoderLayer", "encoder", VECTORS, {"micro_batch": 8}),
    ("gpt 3M, DDP", "gpt", SMALL, {"data": 4}),
    ("gpt 3M, DDP, accumulated", "gpt", SMALL, {"data": 4, "accumulation": 2}),
    ("gpt 3M, DDP, bf16, SGD", "gpt", SMALL, {**BF16, **SGD, "data": 4}),
    ("gpt 3M, FSDP", "gpt", SMALL, {"strategy": "fsdp", "data": 4}),
    ("gpt 3M, FSDP, recomputed", "gpt", SMALL, {"strategy": "fsdp", "data": 4, "checkpointing": True}),
    ("gpt 3M, FSDP, bf16", "gpt", SMALL, {**BF16, "strategy": "fsdp", "data": 4}),
    ("gpt 3M, FSDP, bf16, accumulated", "gpt", SMALL,
     {**BF16, "strategy": "fsdp", "data": 4, "accumulation": 2}),
)  # fmt: skip


class Tracker(MemTracker):  # type: ignore[no-untyped-call]
    """Leaves out parameters that are not trained, on which it would fail."""

    class _Nothing:
        def remove(self) -> None:
            """Do nothing."""

    def _track_module_params_and_buffers(
        self, module: nn.Module, install_grad_hooks: bool = True
    ) -> tuple[int, int]:
        for parameter in module.parameters():
            if not parameter.requires_grad:
                handles = (self._Nothing(), self._Nothing())
                self._param_to_grad_hook_handles.setdefault(parameter, handles)  # type: ignore[no-untyped-call]
        return super()._track_module_params_and_buffers(module, install_grad_hooks)


class Alone:
    """A rank of a group whose others are not there."""

    def sum(self, values: torch.Tensor) -> None:
        """Do nothing."""

    def broadcast(self, value: Any) -> Any:
        """Return it."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Return the own value, as if all had it."""
        return [value]

    def close(self) -> None:
        """Do nothing."""


def connect(device: torch.device) -> Alone:
    """As modules of communication have it."""
    del device
    return Alone()


def measure(model: str, arguments: Any, setup: Setup) -> tuple[int, int]:
    """Bytes at the worst moment of two steps, and as planned."""
    if setup.data > 1:
        # DDP needs sums to come back, so its group is of one rank; FSDP needs slices, and gets any numbers.
        rest: dict[str, Any] = {"backend": "gloo", "store": dist.HashStore(), "world_size": 1}  # type: ignore[attr-defined]
        if setup.strategy == "fsdp":
            rest = {"backend": "fake", "store": FakeStore(), "world_size": setup.data}
        dist.init_process_group(rank=0, **rest)
    group = Group(Launch(0, 0, setup.data), __name__)
    task, planned = _describe(model, arguments)
    with FakeTensorMode() if setup.data == 1 else nullcontext():
        network = _make(model, arguments, task)
        if setup.checkpointing:
            recompute_blocks(network)
        network.to = lambda *_: network  # type: ignore[method-assign]  # it is there already
        peak = _train(task, network, setup, group)
    breakdown = estimate(planned, setup)
    assert breakdown is not None
    if dist.is_initialized():
        dist.destroy_process_group()
    return peak, breakdown.total - breakdown.reserve - breakdown.checkpoint


def _describe(model: str, arguments: Any) -> tuple[tasks.Task, Network]:
    if model == "gpt":
        length, *_, vocabulary = arguments
        task = tasks.make_task("language_model", (length + 1,), "uint8", 0)
        assert task.tokenizer is not None
        tokenizer = replace(task.tokenizer, vocabulary=vocabulary)
        return replace(task, tokenizer=tokenizer, outputs=vocabulary), built_in.gpt(*arguments)
    shape, classes = arguments
    task = tasks.make_task("classification", shape, "float32", classes)
    if model in built_in.NAMES:
        return task, getattr(built_in, model)(shape, classes)
    described = model_shapes.describe(f"own.py:{model}", task)
    samples = Samples("classification", shape, classes)
    return task, imported_model.read_description(model, described, samples)


def _make(model: str, arguments: Any, task: tasks.Task) -> nn.Module:
    if model == "gpt":
        return models.build_model("gpt", task, ModelOptions(*arguments[1:4]), sample=None)
    if model in built_in.NAMES:
        return models.build_model(model, task, ModelOptions(), sample=torch.randn(9, *task.input_shape))
    own: dict[str, Any] = {}
    exec(OWN, own)
    network: nn.Module = own[model](*arguments)
    return network


def _train(task: tasks.Task, network: nn.Module, setup: Setup, group: Group) -> int:
    precision = Precision(setup.precision, group.device)
    updates = UpdateSettings(
        OptimizerOptions(setup.optimizer, momentum=setup.momentum), precision, accumulation=setup.accumulation
    )
    strategy: Any = strategies.build_strategy(f"wstrain_ddp.{setup.strategy}", network, updates, group)
    shape = (setup.micro_batch, *task.input_shape)
    inputs = torch.zeros(shape, dtype=torch.int64 if task.reads_tokens else torch.float32)
    targets = torch.zeros(shape if task.reads_tokens else shape[:1], dtype=torch.int64)
    batch, following = (inputs, targets), (inputs.clone(), targets.clone())  # which is there meanwhile
    tracker = Tracker()
    tracker.track_external(strategy.model, strategy._optimizer, *batch, *following)
    with tracker:
        for _ in range(2):
            batches = MicroBatches(
                setup.accumulation,
                iter([batch] * setup.accumulation),
                seed=lambda _: tracker.reset_mod_stats(),
            )
            strategy.gradients(batches, Objective(task, precision))
            strategy.update(1e-4)
    return int(tracker.get_tracker_snapshot("peak")[group.device]["Total"])


def list_rows(names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Name, bytes by the tracker and bytes as planned of the cases with these names, or of all."""
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("own.py").write_text(OWN, encoding="utf-8")
        for name, model, arguments, values in CASES:
            if names and name not in names:
                continue
            setup = Setup(
                **{
                    "strategy": "ddp",
                    "micro_batch": 4,
                    "optimizer": "adamw",
                    "gpu": False,
                    "pooled": True,
                    **values,
                }
            )
            rows.append((name, *measure(model, arguments, setup)))
    return rows


def main() -> None:
    """Print a table, or with ``--json`` the rows."""
    names = [argument for argument in sys.argv[1:] if argument != "--json"]
    rows = list_rows(names)
    if "--json" in sys.argv:
        print(json.dumps(rows))
        return
    print("| training | MemTracker | planned | ratio |\n|---|---|---|---|")
    for name, measured, planned in rows:
        print(f"| {name} | {measured / 1e6:,.1f} MB | {planned / 1e6:,.1f} MB | {planned / measured:.3f} |")


if __name__ == "__main__":
    main()
    end_process(0)
