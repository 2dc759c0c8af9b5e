"""Degrees of parallelism: how the ranks of a step share data, layers and depth.

The three degrees multiply to the world size. Ranks fill a mesh ``[pipeline, data, tensor]`` with the
tensor dimension innermost, so that ranks which share a layer are neighbours (Narayanan et al. 2021,
arXiv:2104.04473, section 3).
"""

from __future__ import annotations

import math

from msgspec import Struct

from worldsize.base.wording import join_words, plural

# A pipeline that idles less than this is usual: GPipe, Huang et al. 2019, wants four micro-batches a stage.
TOLERABLE_BUBBLE = 0.2
_TRIES = 10_000


class Degrees(Struct, frozen=True):
    """Replicas, ranks that share each layer, stages of layers."""

    data: int
    tensor: int
    pipeline: int

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return self.data * self.tensor * self.pipeline

    @property
    def splits(self) -> bool:
        """Whether a replica of the model spans several ranks."""
        return self.tensor * self.pipeline > 1

    def shown(self) -> str:
        """``4 data × 2 tensor × 1 pipeline``."""
        return f"{self.data} data × {self.tensor} tensor × {self.pipeline} pipeline"


def divisors(number: int) -> list[int]:
    """Every divisor, ascending."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    large = [number // divisor for divisor in reversed(small)]
    return small + large[large[0] == small[-1] :]


def divisor_near(number: int, start: int, step: int) -> int | None:
    """The first divisor above 1 from ``start`` on, upwards or downwards (``step`` is 1 or −1).

    None if there is none among the first thousands: products of counts may be too large to factor.
    """
    for candidate in range(start, start + step * _TRIES, step):
        if candidate <= 1 or candidate > number:
            return None
        if number % candidate == 0:
            return candidate
    return None


def largest_common_divisor(limit: int, *numbers: int) -> int:
    """The largest number up to ``limit`` that divides all of ``numbers``."""
    return max(divisor for divisor in divisors(math.gcd(*numbers)) if divisor <= max(limit, 1))


def crosses_instances(tensor: int, processes: int, instances: int) -> bool:
    """Whether consecutive ranks that share a layer are on two instances of ``processes`` ranks each."""
    return tensor > 1 and instances > 1 and processes % tensor != 0


def show_degrees(tensor: int, pipeline: int) -> str:
    """``tensor 4``, ``pipeline 2``, ``tensor 4 × pipeline 2 = 8``."""
    parts = [f"{name} {value}" for name, value in (("tensor", tensor), ("pipeline", pipeline)) if value > 1]
    return " × ".join(parts) + (f" = {tensor * pipeline}" if len(parts) > 1 else "")


def show_world_size(instances: int, processes: int) -> str:
    """``8 (2 instances × 4 processes)``."""
    return f"{instances * processes} ({plural(instances, 'instance')} × {plural(processes, 'process')})"


def suggest_divisors(tensor: int, pipeline: int, world_size: int) -> str:
    """The help for degrees whose product does not divide the world size: the nearest ones that do."""
    name, value, other = ("tensor", tensor, pipeline) if tensor > 1 else ("pipeline", pipeline, tensor)
    room, rest = divmod(world_size, other)
    near = [divisor_near(room, min(value - 1, room), -1), divisor_near(room, value + 1, 1)]
    fitting = [str(number) for number in near if number is not None]
    if rest or not fitting:
        return f"choose degrees whose product divides {world_size}, or run more processes"
    beside = f" with pipeline {other}" if other > 1 else ""
    return f"write a {name} degree of {join_words(fitting)}{beside}"


def bubble_share(stages: int, micro_batches: int) -> float:
    """The share of a step in which the ranks of a pipeline idle: ``(p − 1) / (a + p − 1)``.

    Here ``p`` is the number of stages and ``a`` that of the micro-batches in one optimizer step.
    Source: GPipe, Huang et al. 2019 (arXiv:1811.06965), section 2.3; 1F1B has the same.
    """
    return (stages - 1) / (micro_batches + stages - 1)


def count_micro_batches(stages: int) -> int:
    """Count the fewest micro-batches whose bubble is below :data:`TOLERABLE_BUBBLE`."""
    return math.floor((stages - 1) * (1 - TOLERABLE_BUBBLE) / TOLERABLE_BUBBLE + 1e-9) + 1


def shrink_degrees(tensor: int, pipeline: int, processes: int) -> tuple[int, int]:
    """The degrees of a replica that fits ``processes``: divisors of the planned ones, with the most ranks.

    A divisor still divides heads, width and layers, so the model is the same. The degree that the strategy is
    named after, pipeline before tensor, stays above 1; where that does not fit, nothing is split: ``(1, 1)``.
    """
    named = 1 if pipeline > 1 else 0
    pairs = [
        pair
        for pair in ((t, p) for t in divisors(tensor) for p in divisors(pipeline))
        if pair[0] * pair[1] <= processes and pair[named] > 1
    ]
    return max(pairs, key=lambda pair: (pair[0] * pair[1], pair[0]), default=(1, 1))
