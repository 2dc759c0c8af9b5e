"""Where to cut a sequence of blocks into pipeline stages. This module needs no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate


def partition_blocks(costs: Sequence[int], stages: int) -> list[range]:
    """Cut blocks into contiguous stages whose dearest is as cheap as can be, as all others wait for it.

    The linear partition problem by dynamic programming, in ``O(stages · blocks²)``.

    Args:
        costs: of each block, for instance its number of weights; a stage of zero cost is none.
        stages: how many are wanted.

    Returns:
        The blocks of each stage; empty if there are fewer blocks of any cost than stages. Among equal cuts
        the one whose first stages are shorter.
    """
    sums = [0, *accumulate(costs)]
    blocks = len(costs)
    best = [[math.inf] * (blocks + 1) for _ in range(stages + 1)]  # [stages so far][blocks so far]
    best[0][0] = 0.0
    begins = [[0] * (blocks + 1) for _ in range(stages + 1)]
    for stage in range(1, stages + 1):
        for end in range(1, blocks + 1):
            for begin in range(end):
                cost = sums[end] - sums[begin] or math.inf
                dearest = max(best[stage - 1][begin], cost)
                if dearest < best[stage][end]:
                    best[stage][end], begins[stage][end] = dearest, begin
    if best[stages][blocks] == math.inf:
        return []
    found: list[range] = []
    end = blocks
    for stage in range(stages, 0, -1):
        found.insert(0, range(begins[stage][end], end))
        end = begins[stage][end]
    return found
