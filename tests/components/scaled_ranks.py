"""Two ranks train with a loss scaler, sharded and whole, and one of them meets an overflow.

python scaled_ranks.py FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, multiprocessing

from wsshards.errors import end_process
from wstrain.launch.environment import Launch
from wstrain.settings import OptimizerOptions
from wstrain_ddp import ddp, fsdp
from wstrain_torch import models
from wstrain_torch.data import make_task
from wstrain_torch.launch.process_group import Group
from wstrain_torch.precision import Precision
from wstrain_torch.strategies import MicroBatches, Objective, UpdateSettings

TASK = make_task("classification", (1, 8, 8), "float32", 10)
RANKS, STEPS, OVERFLOWS = 2, 6, 3


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(step * RANKS + rank)
    pictures, labels = (
        torch.randn(8, 1, 8, 8, generator=numbers),
        torch.randint(0, 10, (8,), generator=numbers),
    )
    overflow = step == OVERFLOWS and rank == RANKS - 1
    return (pictures * float("inf") if overflow else pictures), labels


def trained(strategy_module: ModuleType, group: Group, optimizer: str, clip: float) -> dict[str, Any]:
    torch.manual_seed(0)
    model = models.build_model("mlp", TASK, models.ModelOptions(), sample=torch.randn(16, 1, 8, 8))
    precision = Precision("fp32", group.device)
    precision.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    options = OptimizerOptions(optimizer, weight_decay=0.1)
    strategy = strategy_module.build_strategy(
        model, UpdateSettings(options, precision, max_gradient_norm=clip), group
    )
    for step in range(STEPS):
        batches = MicroBatches(1, iter([batch(step, group.launch.rank)]), seed=lambda _: None)
        strategy.gradients(batches, Objective(TASK, precision))
        strategy.update(0.01)
    weights = strategy.whole_model().state_dict()
    return {"weights": {name: value.clone() for name, value in weights.items()}} | {
        "scaler": precision.scaler.state_dict()
    }


def rank_main(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    group = Group(Launch(rank=rank, local_rank=rank, world_size=RANKS))
    for optimizer in ("sgd", "adamw"):
        for clip in (0.0, 0.5):
            whole, sharded = (trained(module, group, optimizer, clip) for module in (ddp, fsdp))
            if rank == 0:
                torch.save((whole, sharded), Path(folder) / f"{optimizer}-{clip}.pt")
    group.leave()
    end_process(0)


if __name__ == "__main__":
    # Forks have loaded what takes longer than the steps.
    multiprocessing.start_processes(rank_main, (sys.argv[1],), RANKS, start_method="fork")
