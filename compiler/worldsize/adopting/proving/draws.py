"""Which samples the loaders of a recorded script draw, in its process. This imports no framework."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldsize.adopting.proving.recorder import Recording


class Draws:
    """Which samples each shuffled loader draws: recorded, and taken from another recording if there is one.

    A loader is known by the number of its samples and its place among the shuffled loaders of that many.
    """

    def __init__(self, recording: Recording, replayed: dict[str, Any]) -> None:
        self._recording, self._replayed = recording, replayed
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # what `_names` refers to, so that no other object gets its id
        self._of_length: dict[int, int] = defaultdict(int)
        self._epochs: dict[str, int] = defaultdict(int)

    def drops_last(self, length: int) -> bool:
        """Whether the other recording leaves out the incomplete last batch of so many samples."""
        return length in self._replayed.get("drops_last", ())

    def start(self, sampler: Any, length: int) -> tuple[str, int, Iterator[list[int]] | None]:
        """A loader starts an epoch: its name, the number of the epoch, and its batches if they are given."""
        name = self._names.get(id(sampler))
        if name is None:
            name = self._names[id(sampler)] = f"{length}.{self._of_length[length]}"
            self._of_length[length] += 1
            self._kept.append(sampler)
            self._recording.write(
                loader=name,
                length=length,
                drop_last=bool(getattr(sampler, "drop_last", False)),
                replaces=bool(getattr(innermost_sampler(sampler), "replacement", False)),
            )
        epoch = self._epochs[name]
        self._epochs[name] += 1
        batches = self._replayed.get("batches", {}).get(f"{name}.{epoch}")
        return name, epoch, iter(batches) if batches is not None else None

    def add(self, name: str, epoch: int, indices: Any) -> None:
        """A batch has been drawn."""
        drawn = indices if isinstance(indices, list) else [indices]
        self._recording.write(draw=name, epoch=epoch, indices=[int(each) for each in drawn])


def innermost_sampler(sampler: Any) -> Any:
    """The sampler that orders the samples, below what cuts them into batches and deals these out."""
    for _ in range(5):
        inner = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
        if inner is None:
            break
        sampler = inner
    return sampler


def is_shuffled(sampler: Any) -> bool:
    """Whether the order differs from that of the data."""
    inner = innermost_sampler(sampler)
    return type(inner).__name__ != "SequentialSampler" and bool(getattr(inner, "shuffle", True))


def wrap_draws(dataloader: Any, draws: Draws, stops: Callable[[Any], bool]) -> None:
    """Record what the iterators of loaders draw, in the process that trains, until one ``stops``."""
    iterator = dataloader._BaseDataLoaderIter
    draw, reset, make = iterator._next_index, iterator._reset, dataloader.DataLoader.__init__

    @wraps(draw)
    def next_index(self: Any) -> Any:
        if stops(self):
            raise StopIteration
        started = self.__dict__.get("_worldsize_epoch")
        if started is None:
            started = self._worldsize_epoch = _start_epoch(self, draws)
        if not started:
            return draw(self)
        name, epoch, batches = started
        indices = next(batches) if batches is not None else draw(self)
        draws.add(name, epoch, indices)
        return indices

    @wraps(reset)
    def reset_iterator(self: Any, loader: Any, first_iter: bool = False) -> Any:
        if not first_iter:
            self._worldsize_epoch = None
        return reset(self, loader, first_iter)

    @wraps(make)
    def make_loader(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        sampler: Any = getattr(self, "batch_sampler", None)
        if hasattr(sampler, "drop_last") and is_shuffled(sampler) and draws.drops_last(_length(self.dataset)):
            sampler.drop_last = True

    iterator._next_index, iterator._reset = next_index, reset_iterator
    dataloader.DataLoader.__init__ = make_loader


def _start_epoch(iterator: Any, draws: Draws) -> Any:
    sampler = iterator._index_sampler
    length = _length(iterator._dataset)
    if not length or iterator._dataset_kind != 0 or not is_shuffled(sampler):
        return ()
    return draws.start(sampler, length)


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except TypeError:
        return 0


def merge_draws(paths: Sequence[str]) -> dict[str, Any]:
    """What the processes of a recording drew together: the global batches of each epoch of each loader.

    Returns:
        ``batches`` by loader and epoch, and ``drops_last``, the lengths of the data of loaders that leave out
        an incomplete last batch.
    """
    if not paths:
        return {}
    ranks, drops_last = [], set()
    for path in paths:
        batches: dict[str, list[list[int]]] = defaultdict(list)
        with open(path, encoding="utf-8") as file:
            for entry in map(json.loads, file.read().split("\n")[:-1]):  # the last may be incomplete
                if "draw" in entry:
                    batches[f"{entry['draw']}.{entry['epoch']}"].append(entry["indices"])
                elif entry.get("drop_last"):
                    drops_last.add(entry["length"])
        ranks.append(batches)
    merged = {
        name: [[index for part in parts for index in part] for parts in zip(*(each[name] for each in ranks))]  # noqa: B905
        for name in ranks[0]
        if all(name in each for each in ranks)
    }
    return {"batches": merged, "drops_last": drops_last}
