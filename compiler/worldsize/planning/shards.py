"""How many shards the training rows are cut into."""

from __future__ import annotations


def per_rank(world_size: int, loader_workers: int, rows: int | None) -> int:
    """Shards for each rank: one a loader worker, fewer where rows are few, never fewer than one.

    Args:
        world_size: ranks that read.
        loader_workers: processes or threads that load data for one rank; 0 counts as 1.
        rows: training rows, None where unknown.
    """
    wanted = max(loader_workers, 1)
    return wanted if rows is None else max(1, min(wanted, rows // world_size))


def count(world_size: int, loader_workers: int, rows: int | None) -> int:
    """Shards in all, a multiple of the world size: uneven shards let some ranks wait for ever."""
    return world_size * per_rank(world_size, loader_workers, rows)


def sizes(rows: int, shards: int) -> list[int]:
    """Rows of each shard: sizes differ by at most one, the larger come first."""
    size, rest = divmod(rows, shards)
    return [size + (index < rest) for index in range(shards)]
