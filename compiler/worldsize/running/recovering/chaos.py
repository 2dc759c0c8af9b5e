"""What a rehearsal does to a training, drawn from a seed: one seed, steps and ranks give the same faults.

When a fault happens is told in parts of the training and not in seconds, so that it means the same on a
faster machine. Every kind comes once before any comes twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["kill", "terminate", "stop", "slow", "cut"]

FEWEST, MOST = 4, 6  # faults of a step
EARLIEST, LATEST = 0.05, 0.9  # of its training
WHOLE_GROUP = 0.25  # of what is killed or terminated
SECONDS: Mapping[Kind, tuple[float, float]] = {"stop": (2.0, 6.0), "slow": (4.0, 8.0), "cut": (2.0, 6.0)}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that happens.

    Attributes:
        kind: ``kill`` is SIGKILL, ``terminate`` SIGTERM, ``stop`` SIGSTOP for a while, ``slow`` half of the
            processor for a while, ``cut`` a node's network cable pulled for a while.
        share: of the training, after which it happens.
        ranks: whom it happens to.
        seconds: how long, where it passes.
        node: whose cable.
    """

    kind: Kind
    share: float
    ranks: tuple[int, ...] = ()
    seconds: float = 0.0
    node: int = 0

    @property
    def ends_a_try(self) -> bool:
        """Whether the step has to be started again."""
        return self.kind in ("kill", "terminate")

    @property
    def words(self) -> str:
        """What happens, such as ``kill rank 1 (SIGKILL)``."""
        whom = f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))}"
        return {
            "kill": f"kill {whom} (SIGKILL)",
            "terminate": f"terminate {whom} (SIGTERM)",
            "stop": f"stop {whom} for {self.seconds:.1f} s (SIGSTOP)",
            "slow": f"slow {whom} down by half for {self.seconds:.1f} s",
            "cut": f"cut node{self.node} off for {self.seconds:.1f} s",
        }[self.kind]


def draw(seed: int, step: str, world_size: int, nodes: int = 0) -> tuple[Fault, ...]:
    """The faults of a step, in order.

    Args:
        seed: of the rehearsal.
        step: its name.
        world_size: its ranks.
        nodes: instances with a network of their own; 0 where they have none.
    """
    chance = random.Random(f"{seed}/{step}")  # noqa: S311 - no secret
    shares = sorted(chance.uniform(EARLIEST, LATEST) for _ in range(chance.randint(FEWEST, MOST)))
    kinds = _kinds(chance, cuts=nodes > 1)
    return tuple(_fault(chance, next(kinds), share, world_size, nodes) for share in shares)


def schedule(seed: int, plans: Mapping[str, tuple[Fault, ...]]) -> Iterator[str]:
    """What will happen, in lines."""
    for step, faults in plans.items():
        yield f"chaos {seed}: {step}: {len(faults)} fault{'s' * (len(faults) != 1)}"
        yield from (f"  at {fault.share:4.0%} of the training: {fault.words}" for fault in faults)


def _kinds(chance: random.Random, *, cuts: bool) -> Iterator[Kind]:
    kinds: list[Kind] = ["kill", "terminate", "stop", "slow", *(["cut"] if cuts else [])]  # type: ignore[list-item]
    while True:
        chance.shuffle(kinds)
        yield from kinds


def _fault(chance: random.Random, kind: Kind, share: float, world_size: int, nodes: int) -> Fault:
    # Drawn for every kind alike, so that one fault's kind does not move the others.
    rank, whole, length, node = (
        chance.randrange(world_size),
        chance.random(),
        chance.random(),
        chance.random(),
    )
    low, high = SECONDS.get(kind, (0.0, 0.0))
    seconds = round(low + length * (high - low), 1)
    if kind == "cut":
        return Fault(kind, share, seconds=seconds, node=int(node * nodes))
    everybody = kind in ("kill", "terminate") and whole < WHOLE_GROUP
    return Fault(kind, share, tuple(range(world_size)) if everybody else (rank,), seconds)
