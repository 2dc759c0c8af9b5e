"""Four ranks try the strategies that divide a model, against one process that does not.

    python split_ranks.py FOLDER

Every trial sees the same samples in the same order, whichever way the model is divided.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from wsshards.errors import UserError, end_process
from wstrain.launch.environment import Launch
from wstrain.launch.mesh import Mesh
from wstrain.settings import OptimizerOptions
from wstrain_torch import optimizers
from wstrain_torch.checkpoint import sharded_checkpoint, tensor_state
from wstrain_torch.data import make_task
from wstrain_torch.launch.process_group import Group
from wstrain_torch.models import gpt
from wstrain_torch.models.layers import ModelOptions
from wstrain_torch.precision import Precision
from wstrain_torch.strategies import MicroBatches, Objective, Strategy, UpdateSettings, build_strategy

RANKS, ROWS, TOKENS = 4, 2, 16  # rows of a micro-batch; a global batch is 8 rows
STEPS = 2  # on a curve, the second with momenta
PLACES = 4  # micro-batches of a global batch
TEXT = make_task("language_model", (TOKENS + 1,), "uint8", 0)
CLIPPED = 0.4  # shorter than the gradients are
ADAMW = OptimizerOptions("adamw", weight_decay=0.1)
SGD = OptimizerOptions("sgd", momentum=0.9, weight_decay=0.01)


def transformer() -> nn.Module:
    torch.manual_seed(0)
    return gpt.build_model(TEXT, ModelOptions(gpt_layers=4, gpt_heads=4, gpt_width=32))


class Positions(nn.Module):
    """A model of the user's, with weights of its own and a dropout outside of what its plan divides."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, 24)
        self.positions = nn.Parameter(torch.randn(TOKENS, 24) / 8)
        self.dropout = nn.Dropout(0.25)
        self.up, self.down = nn.Linear(24, 64, bias=False), nn.Linear(64, 24)
        self.head = nn.Linear(24, 256)

    def tensor_parallel_plan(self) -> dict[str, str]:
        return {"up": "colwise", "down": "rowwise", "tokens": "colwise_gathered"}

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.tokens(tokens) + self.positions)
        scores: Tensor = self.head(x + self.down(self.up(x).relu()))
        return scores


class Remembering(Positions):
    """A model that counts on all outputs of a layer that its plan divides."""

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.up(self.tokens(tokens)).view(*tokens.shape, 8, 8)
        scores: Tensor = self.head(self.down(hidden.flatten(-2)))
        return scores


def positions() -> nn.Module:
    torch.manual_seed(1)
    return Positions()


def sequence() -> nn.Module:
    torch.manual_seed(2)
    hidden = [layer for _ in range(3) for layer in (nn.Linear(24, 24), nn.LayerNorm(24), nn.GELU())]
    return nn.Sequential(nn.Embedding(256, 24), *hidden, nn.Linear(24, 256))


@dataclass(frozen=True)
class Trial:
    """A way to divide a model."""

    strategy: str
    mesh: Mesh
    schedule: str = "gpipe"
    optimizer: OptimizerOptions = ADAMW
    model: Callable[[], nn.Module] = transformer
    precision: str = "fp32"

    @property
    def name(self) -> str:
        return f"{self.strategy} {self.mesh} {self.schedule} {self.optimizer.name} {self.model.__name__}"


TENSOR = Trial("tensor_parallel", Mesh(data=2, tensor=2))
ONLY_TENSOR = Trial("tensor_parallel", Mesh(data=1, tensor=4), optimizer=SGD)
PIPELINE = Trial("pipeline_parallel", Mesh(data=2, pipeline=2))
ONLY_PIPELINE = Trial("pipeline_parallel", Mesh(data=1, pipeline=4), schedule="1f1b")
BOTH = Trial("pipeline_parallel", Mesh(data=1, tensor=2, pipeline=2), schedule="1f1b")
SHARDED = Trial("fsdp", Mesh(data=2, tensor=2))
USERS = (replace(TENSOR, model=positions), replace(PIPELINE, model=sequence))
ALL = (TENSOR, ONLY_TENSOR, PIPELINE, ONLY_PIPELINE, BOTH, SHARDED, *USERS)


def rows(step: int) -> Tensor:
    text = torch.randint(0, 64, (PLACES * ROWS, TOKENS + 1), generator=torch.Generator().manual_seed(step))
    return text.cumsum(1) % 64  # something that can be learned


def micro_batch(step: int, place: int) -> tuple[Tensor, Tensor]:
    own = rows(step)[place * ROWS : (place + 1) * ROWS]
    return own[:, :-1].contiguous(), own[:, 1:].contiguous()


def seed(step: int, place: int) -> None:
    torch.manual_seed(1000 * step + place)


class Alone:
    """What one process makes of it."""

    def __init__(self, trial: Trial) -> None:
        self.model = trial.model().train()
        self.objective = Objective(TEXT, Precision(trial.precision, torch.device("cpu")))
        self.optimizer = optimizers.build_optimizer(self.model, trial.optimizer, learning_rate=0.01)

    def step(self, step: int) -> float:
        total = 0.0
        for place in range(PLACES):
            seed(step, place)
            loss = self.objective(self.model, *micro_batch(step, place)) / PLACES
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        length = nn.utils.clip_grad_norm_(self.model.parameters(), CLIPPED)
        assert step or length > CLIPPED  # later steps may be shorter
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


Curve = tuple[list[float], nn.Module]


class Divided:
    """What the ranks make of it together."""

    def __init__(self, trial: Trial, group: Group) -> None:
        group.mesh = trial.mesh
        self.group, self.count = group, PLACES // trial.mesh.data
        precision = Precision(trial.precision, group.device)
        updates = UpdateSettings(
            trial.optimizer,
            precision,
            micro_batch=ROWS,
            accumulation=self.count,
            max_gradient_norm=CLIPPED,
            options={"pipeline_schedule": trial.schedule},
        )
        self.objective = Objective(TEXT, precision)
        self.strategy: Strategy = build_strategy(
            f"wstrain_ddp.{trial.strategy}", trial.model(), updates, group
        )
        self.strategy.model.train()

    def step(self, step: int) -> float:
        first = self.group.replica * self.count
        stream: Iterator[tuple[Tensor, Tensor]] = iter(
            [micro_batch(step, first + micro) for micro in range(self.count)]
        )
        batches = MicroBatches(self.count, stream, lambda micro: seed(step, first + micro))
        loss = self.strategy.gradients(batches, self.objective)
        assert loss.ndim == 0
        assert not loss.requires_grad
        self.strategy.update(0.01)
        return float(self.group.mean(loss.clone()))


@functools.cache
def follow(model: Callable[[], nn.Module], optimizer: OptimizerOptions, precision: str) -> Curve:
    """The first steps of one process, which is the same however the ranks divide its model."""
    alone = Alone(Trial("", Mesh(data=1), optimizer=optimizer, model=model, precision=precision))
    return [alone.step(step) for step in range(STEPS)], alone.model


def same(ours: float, alone: float, what: str, tolerance: float = 1e-4) -> None:
    assert abs(ours - alone) <= tolerance * abs(alone), f"{what}: {ours} instead of {alone}"


def same_weights(whole: nn.Module, alone: nn.Module, what: str) -> None:
    ours = whole.state_dict()
    assert list(ours) == list(alone.state_dict())
    for name, expected in alone.state_dict().items():
        difference = float((ours[name].cpu() - expected).norm() / expected.norm().clamp_min(1e-12))
        assert difference < 1e-3, f"{what}: {name} is off by {difference:.1e}"


def every_way_follows_the_same_curve(group: Group, _folder: Path) -> None:
    for trial in ALL:
        ours = Divided(trial, group)
        losses = [ours.step(step) for step in range(STEPS)]
        whole = ours.strategy.whole_model()
        if group.launch.is_main:
            expected, alone = follow(trial.model, trial.optimizer, trial.precision)
            for step in range(STEPS):
                same(losses[step], expected[step], f"{trial.name} step {step}")
            same_weights(whole, alone, trial.name)


def write(folder: Path, state: dict[str, Any], group: Group) -> None:
    layout = sharded_checkpoint.plan_layout(state, group.launch.rank, group.gather)
    written = group.gather(
        sharded_checkpoint.write_part(folder, layout, sharded_checkpoint.select_own_slices(layout, state))
    )
    if group.launch.is_main:
        sharded_checkpoint.write_metadata(folder, layout, written)
    dist.barrier()


def what_one_saved_any_other_takes_up(group: Group, folder: Path) -> None:
    """A relay: each runs two steps from where another one stopped."""
    alone = Alone(TENSOR)
    for leg, trial in enumerate((TENSOR, BOTH, SHARDED, ONLY_PIPELINE, TENSOR)):
        ours = Divided(trial, group)
        assert ours.strategy.sharded
        if leg:
            ours.strategy.load(sharded_checkpoint.ShardedCheckpoint(folder / f"leg-{leg - 1}"))
        for step in (2 * leg, 2 * leg + 1):
            loss = ours.step(step)
            if group.launch.is_main:
                same(loss, alone.step(step), f"{trial.name} from another's, step {step}")
        place = folder / f"leg-{leg}"
        place.mkdir(exist_ok=True)
        dist.barrier()
        write(place, ours.strategy.state(), group)
    loss = ours.step(10)
    if not group.launch.is_main:
        return
    stored = sharded_checkpoint.ShardedCheckpoint(folder / "leg-4")
    tensor_state.restore_tensors(
        stored, alone.model, alone.optimizer, torch.amp.GradScaler("cpu", enabled=False)
    )
    same(alone.step(10), loss, "one process from the ranks'")


def half_precision_is_the_same_up_to_rounding(group: Group, _folder: Path) -> None:
    trial = replace(BOTH, precision="bf16")
    ours = Divided(trial, group)
    losses = [ours.step(step) for step in range(2)]
    if group.launch.is_main:
        expected, _ = follow(trial.model, trial.optimizer, trial.precision)
        for step, loss in enumerate(losses):
            same(loss, expected[step], f"bf16 step {step}", tolerance=1e-2)


def a_model_that_remembers_its_heads_is_told_so(group: Group, _folder: Path) -> None:
    ours = Divided(replace(TENSOR, model=Remembering), group)
    with pytest.raises(UserError, match=r"the model fails once it is divided: shape '\[2, 16, 8, 8\]'"):
        ours.step(0)


TRIALS = (
    every_way_follows_the_same_curve,
    what_one_saved_any_other_takes_up,
    half_precision_is_the_same_up_to_rounding,
    a_model_that_remembers_its_heads_is_told_so,
)


def work(rank: int, port: int, folder: Path) -> None:
    contract = {"RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in contract.items()}
    torch.set_num_threads(1)
    group = Group(Launch(rank, rank, RANKS, master=f"127.0.0.1:{port}"))
    for trial in TRIALS:
        trial(group, folder)
        if group.launch.is_main:
            print(trial.__name__, flush=True)
    group.leave()
    end_process(0)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1] / "support"))
    free = importlib.import_module("ports").find_free_port()
    for each in ALL:  # Forks have loaded what takes seconds.
        importlib.import_module(f"wstrain_ddp.{each.strategy}")
    torch.multiprocessing.start_processes(work, (free, Path(sys.argv[1])), RANKS, start_method="fork")
