"""Places the steps of a pipeline on a plane: by layers from top to bottom, so that arrows point down.

The layer of a step is its longest way from a step that needs nothing; within a layer the steps follow the
mean position of what they need, in two sweeps, which removes most crossings (Sugiyama, Tagawa and Toda, 1981,
https://doi.org/10.1109/TSMC.1981.4308636).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 184, 58  # of a step, in CSS pixels
GAP_X, GAP_Y = 28, 44
MARGIN = 12
SWEEPS = 4


class Layout(NamedTuple):
    """The upper left corner of each step, the arrows between them as SVG paths, and the size of all."""

    positions: Mapping[str, tuple[int, int]]
    paths: Sequence[str]
    tips: Sequence[str]  # of the arrows, each once
    width: int
    height: int


def place_steps(needs: Mapping[str, Iterable[str]]) -> Layout:
    """Place steps.

    Args:
        needs: The steps in their order, each with those that it needs. Unknown ones are left out, and so is
            what would close a cycle.
    """
    edges = {
        name: [need for need in dict.fromkeys(wanted) if need in needs] for name, wanted in needs.items()
    }
    layers = _layers(edges)
    rows = _order(edges, layers)
    width = max((len(row) for row in rows), default=0) * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN
    positions: dict[str, tuple[int, int]] = {}
    for level, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP_X) + GAP_X) // 2
        for index, name in enumerate(row):
            positions[name] = (left + index * (WIDTH + GAP_X), MARGIN + level * (HEIGHT + GAP_Y))
    drawn = [
        (positions[source], positions[name])
        for name, wanted in edges.items()
        for source in wanted
        if layers[source] < layers[name]
    ]
    paths = [_curve(*edge) for edge in drawn]
    tips = list(dict.fromkeys(f"M {x + WIDTH // 2} {y} l -4 -7 h 8 z" for _, (x, y) in drawn))
    return Layout(positions, paths, tips, max(width, 0), 2 * MARGIN + len(rows) * (HEIGHT + GAP_Y) - GAP_Y)


def _layers(edges: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The layer of each step; a step of a cycle is placed as if its last edges were not there."""
    layers: dict[str, int] = {}
    open_steps: set[str] = set()
    for start in edges:
        stack = [start]
        while stack:
            name = stack[-1]
            open_steps.add(name)
            waiting = [need for need in edges[name] if need not in layers and need not in open_steps]
            if waiting:
                stack.append(waiting[0])
                continue
            stack.pop()
            open_steps.discard(name)
            layers[name] = max((layers[need] + 1 for need in edges[name] if need in layers), default=0)
    return layers


def _order(edges: Mapping[str, Sequence[str]], layers: Mapping[str, int]) -> list[list[str]]:
    rows: list[list[str]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for name in edges:
        rows[layers[name]].append(name)
    users: dict[str, list[str]] = {name: [] for name in edges}
    for name, wanted in edges.items():
        for source in wanted:
            users[source].append(name)
    for sweep in range(SWEEPS):
        neighbours = edges if sweep % 2 == 0 else users
        place = {name: index - len(row) / 2 for row in rows for index, name in enumerate(row)}
        for row in rows:
            row.sort(
                key=lambda name: _mean([place[neighbour] for neighbour in neighbours[name]], place[name])
            )
    return rows


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _curve(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = source[0] + WIDTH // 2, source[1] + HEIGHT
    x2, y2 = target[0] + WIDTH // 2, target[1]
    bend = max(GAP_Y // 2, (y2 - y1) // 2)
    return f"M {x1} {y1} C {x1} {y1 + bend}, {x2} {y2 - bend}, {x2} {y2 - 5}"
