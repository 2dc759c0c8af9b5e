"""Compares two loss curves, and says why they differ where that can be known."""

from __future__ import annotations

import contextlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from worldsize.base import untrusted

RELATIVE = 1e-3  # of the loss; sums in another order differ by less
ABSOLUTE = 1e-4
LOOSE = 0.25  # of the mean loss, where the samples of a batch see each other or chance is part of it
TOLERANCE = "0.1 % of the loss, or 0.0001"
Verdict = Literal["same", "alike", "different"]


class ComparedStep(Struct, frozen=True):
    """The loss of one step on both sides."""

    step: int  # from 1
    original: float
    adopted: float

    @property
    def difference(self) -> float:
        """The adopted script's loss less the original's."""
        return self.adopted - self.original

    @property
    def is_within(self) -> bool:
        """Whether the two are the same within the tolerance."""
        if not (math.isfinite(self.original) and math.isfinite(self.adopted)):
            return math.isfinite(self.original) == math.isfinite(self.adopted)
        return abs(self.difference) <= max(ABSOLUTE, RELATIVE * abs(self.original))


class Comparison(Struct, frozen=True):
    """Two curves side by side.

    ``same``: every step is within the tolerance. ``alike``: they differ, for the ``reasons``, by less than
    what these explain. ``different``: no cause is known, or they differ by more.
    """

    verdict: Verdict
    steps: tuple[ComparedStep, ...]
    reasons: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()  # of the adopted script, seen in what its processes read

    @property
    def mean_difference(self) -> float:
        """How far the curves are apart on average, as a share of the loss."""
        return _average_difference(self.steps)

    @property
    def worst(self) -> ComparedStep:
        """The step with the largest difference."""
        return max(
            self.steps, key=lambda step: abs(step.difference) if math.isfinite(step.difference) else math.inf
        )

    @property
    def first_outside(self) -> ComparedStep | None:
        """The first step that is not within the tolerance."""
        return next((step for step in self.steps if not step.is_within), None)

    @property
    def is_unexplained(self) -> bool:
        """Whether the curves differ, and nothing tells why."""
        return self.verdict == "different" and not self.faults and not self.reasons


def compare_curves(
    original: Sequence[float], adopted: Sequence[float], reasons: Sequence[str], faults: Sequence[str]
) -> Comparison:
    """Compare the losses of two trainings, step by step.

    Args:
        original: Those of the original in one process.
        adopted: Those of the adopted script, the mean over its processes.
        reasons: Why the two may differ, as sentences.
        faults: What is wrong whatever the losses are.
    """
    steps = tuple(
        ComparedStep(number, *losses) for number, losses in enumerate(zip(original, adopted, strict=False), 1)
    )
    if faults:
        return Comparison("different", steps, faults=tuple(faults))
    if all(step.is_within for step in steps):
        return Comparison("same", steps)
    finite = all(math.isfinite(step.original) and math.isfinite(step.adopted) for step in steps)
    if reasons and finite and _average_difference(steps) <= LOOSE:
        return Comparison("alike", steps, tuple(reasons))
    return Comparison("different", steps, tuple(reasons))


def explain_rounding(compared: Comparison, again: Sequence[float]) -> Comparison:
    """The comparison, with rounding as a cause if the original departs from itself as early.

    Rounding grows with the steps: it leaves the tolerance at another one each time, but not twice as early.

    Args:
        compared: Curves that differ.
        again: The losses of the original with the rows of each batch in another order.
    """
    original = [step.original for step in compared.steps]
    itself, first = compare_curves(original, again, (), ()).first_outside, compared.first_outside
    if itself is None or first is None or first.step * 2 < itself.step:
        return compared
    reason = (
        f"this training magnifies rounding: from step {itself.step} on the original differs from itself"
        " where it adds up the rows of a batch in another order"
    )
    return compare_curves(original, [step.adopted for step in compared.steps], [reason], ())


def _average_difference(steps: Sequence[ComparedStep]) -> float:
    whole = sum(abs(step.original) for step in steps)
    apart = sum(abs(step.difference) for step in steps)
    return apart / whole if whole else math.inf if apart else 0.0


class Recorded(Struct, frozen=True):
    """What one process recorded."""

    losses: tuple[float, ...]
    loaders: dict[str, dict[str, Any]]
    draws: dict[str, dict[int, list[int]]]  # indices by loader and epoch, in their order
    parameters: int | None = None  # of the optimizer with the most
    forward_flops: float | None = None  # of a batch
    passed: bool | None = None  # whether the end of an epoch lies behind; None where the script itself ended


def read_recording(path: Path) -> Recorded:
    """Read the recording of one process; a last line that was not completed is left out."""
    losses, loaders, parameters, flops, passed = [], {}, [], [], None
    draws: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for entry in _entries(path):
        if "loss" in entry:
            losses.append(float(entry["loss"]))
        elif "loader" in entry:
            loaders[entry["loader"]] = entry
        elif "draw" in entry:
            draws[entry["draw"]][entry["epoch"]] += entry["indices"]
        parameters += [entry["parameters"]] if "parameters" in entry else []
        passed = entry.get("passed", passed)
        flops += [entry["forward_flops"]] if "forward_flops" in entry else []
    return Recorded(
        tuple(losses),
        loaders,
        {name: dict(epochs) for name, epochs in draws.items()},
        max(parameters, default=None),
        max(flops, default=None),
        passed,
    )


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        for line in untrusted.read_lines(path):
            if line.endswith("\n"):  # else it was not completed
                yield json.loads(line)


def average_losses(ranks: Sequence[Recorded]) -> list[float]:
    """The loss of each step: the mean over the processes, whose batches have the same size."""
    steps = zip(*(rank.losses for rank in ranks), strict=False)
    return [sum(losses) / len(losses) for losses in steps]


def find_sampling_faults(ranks: Sequence[Recorded]) -> list[str]:
    """What is wrong with the samples that the processes read, whatever the losses are."""
    faults = []
    for name, loader in ranks[0].loaders.items():
        epochs = ranks[0].draws.get(name, {})
        for epoch, losses in epochs.items():
            others = [rank.draws.get(name, {}).get(epoch, []) for rank in ranks[1:]]
            together = [*losses, *(index for other in others for index in other)]
            repeated = len(together) - len(set(together))
            # A sampler that balances classes repeats samples, also those of one process.
            chosen = [rank for rank in (losses, *others) if len(set(rank)) < len(rank)]
            alike = all(other == losses for other in others)
            if _is_filled_up(together, loader["length"]):
                continue
            if repeated >= len(ranks) and not loader.get("replaces") and (alike or not chosen):
                faults.append(
                    f"in epoch {epoch + 1}, {repeated} of {len(together)} samples were read more than once:"
                    " the processes do not share the data"
                )
                break
        if _repeats_order(epochs):
            faults.append("the second epoch has the order of the first: `set_epoch` is not called")
    return faults


def _is_filled_up(together: Sequence[int], length: int) -> bool:
    """Whether an epoch has all rows, and a few again that fill up the last batches, as Accelerate does."""
    return len(set(together)) == length and (len(together) - length) * 4 < len(together)


def _repeats_order(epochs: Mapping[int, list[int]]) -> bool:
    """Whether an epoch has the order of the one before; looking at the first batch does not count."""
    longest = max(map(len, epochs.values()), default=0)
    return any(
        len(order) == longest > 1 and _starts_alike(order, epochs[number + 1])
        for number, order in epochs.items()
        if number + 1 in epochs
    )


def _starts_alike(first: list[int], second: list[int]) -> bool:
    """Whether the second order is the first as far as both are known: two may coincide, eight do not."""
    length = min(len(first), len(second))
    return length >= 8 and first[:length] == second[:length]
