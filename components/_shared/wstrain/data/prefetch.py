"""Loads items in threads ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


def prefetch(load: Callable[[Key], Item], keys: Iterable[Key], workers: int) -> Iterator[Item]:
    """Yield ``load(key)`` for each key, in order.

    Args:
        load: called in other threads.
        keys: are taken only a few ahead.
        workers: threads; 0 loads in this one, when an item is asked for.
    """
    if not workers:
        yield from map(load, keys)
        return
    waiting: deque[Future[Item]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="loader") as pool:
        try:
            for key in keys:
                waiting.append(pool.submit(load, key))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
