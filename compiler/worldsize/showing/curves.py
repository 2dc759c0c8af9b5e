"""Curves of metrics as they are drawn: which values can be, and how many points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Curve = Sequence[tuple[float, float]]  # training steps and values

LARGEST = 1e300  # MLflow stores infinities as the largest numbers


def is_finite(value: float) -> bool:
    """Whether a value can be drawn."""
    return abs(value) < LARGEST


def prepare_curves(curves: Mapping[str, Curve], most: int) -> dict[str, Curve]:
    """The curves that can be drawn: finite values at two steps or more, thinned to ``most`` points."""
    prepared: dict[str, Curve] = {}
    for name, points in curves.items():
        finite = [(step, value) for step, value in points if is_finite(step) and is_finite(value)]
        if len(finite) > 1 and finite[0][0] < finite[-1][0]:
            prepared[name] = thin(finite, most)
    return prepared


def thin(points: Curve, most: int) -> Curve:
    """At most ``most`` points: the smallest and the largest value of equally many neighbours.

    A peak of one step stays visible, which evenly spaced points would miss.
    """
    if len(points) <= most:
        return points
    size = math.ceil(len(points) / (most // 2 - 1))
    kept = {0: points[0], len(points) - 1: points[-1]}
    for start in range(0, len(points), size):
        indices = range(start, min(start + size, len(points)))
        for index in (min(indices, key=lambda at: points[at][1]), max(indices, key=lambda at: points[at][1])):
            kept[index] = points[index]
    return [kept[index] for index in sorted(kept)]


def join_curves(begun: Mapping[str, Curve], continued: Mapping[str, Curve]) -> dict[str, Curve]:
    """The curves of both; one that both have begins with the points of ``begun`` before the other's first."""
    joined = {**begun, **continued}
    for name in begun.keys() & continued.keys():
        first = continued[name][0][0]
        joined[name] = [*(point for point in begun[name] if point[0] < first), *continued[name]]
    return joined
