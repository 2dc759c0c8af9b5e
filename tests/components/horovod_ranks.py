"""Two ranks under mpirun try the strategy itself, against arithmetic that is written out here.

    mpirun -np 2 python horovod_ranks.py

Each rank computes both ranks' parts as well, alone, so that it knows what the exchange must give.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from wstrain.launch.environment import read_mpi_environment
from wstrain.settings import OptimizerOptions
from wstrain_torch.data import Task, make_task
from wstrain_torch.launch.process_group import Group
from wstrain_torch.models import batch_norm
from wstrain_torch.precision import Precision
from wstrain_torch.strategies import MicroBatches, Objective, UpdateSettings, build_strategy

SGD = OptimizerOptions("sgd", momentum=0.9)
RATE, ROWS = 0.5, 8
Batch = tuple[Tensor, Tensor]


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))


def batches(rank: int, step: int, count: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = [torch.rand(ROWS, 1, 8, 8, generator=generator) for _ in range(count)]
    return [(one, torch.randint(10, (ROWS,), generator=generator)) for one in inputs]


def updates(accumulation: int, max_norm: float = 0.0, **options: str) -> UpdateSettings:
    given = {"reduction": "average", "compression": "none"} | options
    precision = Precision("fp32", torch.device("cpu"))
    return UpdateSettings(
        SGD, precision, accumulation=accumulation, max_gradient_norm=max_norm, options=given
    )


class Trial:
    """A model under the strategy, and what one process makes of the same samples."""

    def __init__(self, group: Group, model: nn.Module, given: UpdateSettings) -> None:
        self.group, self.given = group, given
        self.strategy = build_strategy("wstrain_horovod.strategy", model, given, group)
        self.objective = Objective(digits(), given.precision)

    def step(self, step: int) -> Tensor:
        parts = batches(self.group.launch.rank, step, self.given.accumulation)
        stream: Iterator[Batch] = iter(parts)
        micro = MicroBatches(len(parts), stream, lambda _: None)
        loss = self.strategy.gradients(micro, self.objective)
        self.strategy.update(RATE)
        return loss

    def weights(self) -> Tensor:
        return flat(self.strategy.whole_model().parameters())


def digits() -> Task:
    return make_task("classification", (1, 8, 8), "float32", 10)


def flat(tensors: Any) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def gradients(model: nn.Module, parts: list[Batch]) -> list[Tensor]:
    loss = sum((digits().loss(model(inputs), targets) for inputs, targets in parts), torch.zeros(()))
    return list(torch.autograd.grad(loss / len(parts), list(model.parameters())))


def adasum(a: Tensor, b: Tensor) -> Tensor:
    """Equation 6 of Maleki et al. 2020, for one layer of two ranks."""
    dot = (a.double() * b.double()).sum()
    first, second = 1 - dot / (2 * a.double().square().sum()), 1 - dot / (2 * b.double().square().sum())
    return (first * a + second * b).float()


def expect_near(actual: Tensor, expected: Tensor, what: str, tolerance: float = 1e-5) -> None:
    difference = float((actual - expected).norm() / expected.norm())
    assert difference < tolerance, f"{what}: {difference:.2e}"


def everyone_starts_with_rank_0_s_weights(group: Group) -> None:
    trial = Trial(group, network(seed=group.launch.rank), updates(1))
    assert torch.equal(trial.weights(), flat(network(seed=0).parameters()))


def a_step_is_the_mean_over_all_micro_batches(group: Group) -> None:
    trial, model = Trial(group, network(), updates(3)), network()
    trial.step(0)
    parts = [part for rank in (0, 1) for part in batches(rank, 0, 3)]
    expected = flat(model.parameters()) - RATE * flat(gradients(model, parts))  # and not twice the rate
    expect_near(trial.weights(), expected, "average")


def clipping_is_of_the_averaged_gradient(group: Group) -> None:
    trial, model = Trial(group, network(), updates(2, max_norm=0.01)), network()
    trial.step(0)
    gradient = flat(gradients(model, [part for rank in (0, 1) for part in batches(rank, 0, 2)]))
    assert gradient.norm() > 0.01
    expected = flat(model.parameters()) - RATE * 0.01 * gradient / (gradient.norm() + 1e-6)
    expect_near(trial.weights(), expected, "clipping")


def compressed_gradients_are_rounded_before_they_are_added(group: Group) -> None:
    trial, model = Trial(group, network(), updates(1, compression="fp16")), network()
    before = flat(model.parameters())
    trial.step(0)
    ranks = [flat(gradients(model, batches(rank, 0, 1))) for rank in (0, 1)]
    rounded = (ranks[0].half() + ranks[1].half()).float() / 2
    change, exact = (before - trial.weights()) / RATE, (ranks[0] + ranks[1]) / 2
    expect_near(change, rounded, "fp16", 2e-3)
    assert (change - exact).abs().max() > 1e-6


def adasum_combines_the_steps_by_its_formula(group: Group) -> None:
    trial, model = Trial(group, network(), updates(2, reduction="adasum")), network()
    for step in (0, 1):
        trial.step(step)
        if step == 0:
            each = [gradients(model, batches(rank, 0, 2)) for rank in (0, 1)]
            steps = [adasum(-RATE * a, -RATE * b) for a, b in zip(*each, strict=True)]
            expect_near(trial.weights(), flat(model.parameters()) + flat(steps), "adasum")
    mine = trial.weights()
    assert torch.equal(group.broadcast(mine), mine)  # the ranks still agree after a step with momenta


def synchronised_batch_norm_sees_both_ranks(group: Group) -> None:
    def normalised() -> nn.Module:
        torch.manual_seed(0)
        layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)
        return nn.Sequential(*layers)

    trial, model = Trial(group, batch_norm.synchronise_batch_norm(normalised()), updates(1)), normalised()
    trial.step(0)
    both = [torch.cat(tensors) for tensors in zip(*(batches(rank, 0, 1)[0] for rank in (0, 1)), strict=True)]
    expected = flat(model.parameters()) - RATE * flat(gradients(model, [(both[0], both[1])]))
    expect_near(trial.weights(), expected, "batch normalisation", 1e-4)


def main() -> None:
    group = Group(read_mpi_environment(os.environ), "wstrain_horovod.communication")
    for trial in (
        everyone_starts_with_rank_0_s_weights,
        a_step_is_the_mean_over_all_micro_batches,
        clipping_is_of_the_averaged_gradient,
        compressed_gradients_are_rounded_before_they_are_added,
        adasum_combines_the_steps_by_its_formula,
        synchronised_batch_norm_sees_both_ranks,
    ):
        trial(group)
        if group.launch.is_main:
            print(trial.__name__, flush=True)
    group.leave()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
