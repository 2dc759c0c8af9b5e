"""One rank of the benchmark of Horovod's loops: `horovod_loops.py MODEL SHARDS` under mpirun.

The plain loop is what Horovod's own examples do, with all rows in memory: `DistributedOptimizer` with
`backward_passes_per_step`, and nothing besides. Ours is as in `train_loops.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import horovod.torch as hvd
import torch
from train_loops import RATE, STRETCH, Setting, compare

from wstrain.launch.environment import read_mpi_environment
from wstrain_torch.launch.process_group import Group


def plain_loop(setting: Setting) -> Callable[[int], None]:
    """Return the peer: train `STRETCH` steps from a given one."""
    model = setting.network()
    if setting.optimizer == "sgd":
        base: Any = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, fused=True)
    else:
        base = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    optimizer = hvd.DistributedOptimizer(
        base, named_parameters=model.named_parameters(), backward_passes_per_step=setting.accumulation
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    inputs, targets = setting.rows
    per_epoch = len(inputs) // setting.size
    share = setting.size // 2

    def train(start: int) -> None:
        for step in range(start, start + STRETCH):
            epoch, number = divmod(step, per_epoch)
            order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
            mine = order[number * setting.size + setting.rank * share :][:share]
            for rows in mine.split(setting.batch):
                loss = setting.task.loss(model(inputs[rows]), targets[rows]) / setting.accumulation
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return train


def main() -> None:
    """Compare with plain Horovod."""
    setting = Setting(
        *sys.argv[1:], group=Group(read_mpi_environment(os.environ), "wstrain_horovod.communication")
    )
    compare(setting, plain_loop(setting), "wstrain_horovod.strategy", reduction="average", compression="none")


if __name__ == "__main__":
    main()
