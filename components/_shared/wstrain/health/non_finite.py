"""Losses and weights that are not finite: the error that stops a training, and the last good checkpoint.

Losses are read in batches, so that the device need not wait, and bad gradients of one step only show in the
loss of the next. So before a state is saved, all losses up to it are read and the weights are checked: a
checkpoint never holds weights that are not finite.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsshards.errors import UserError

MAX_OVERFLOWS = 20  # steps in a row that the loss scale of fp16 may skip
_NAME = re.compile(r"step-\d{8,}")


@dataclass(frozen=True, slots=True)
class BadStep:
    """A step whose mean loss is not finite.

    Attributes:
        step: its number, from 1.
        loss: mean over ranks.
        rate: learning rate of the step.
        bad_ranks: ranks whose own loss is not finite.
        world_size: number of ranks.
    """

    step: int
    loss: float
    rate: float
    bad_ranks: Sequence[int]
    world_size: int


def non_finite_error(bad: BadStep, last: str | None) -> UserError:
    """Return the error about a step.

    Args:
        bad: the step.
        last: name of the last good checkpoint, or None.
    """
    whose = ""
    if bad.world_size > 1 and len(bad.bad_ranks) == bad.world_size:
        whose = " on every rank"
    elif bad.world_size > 1 and bad.bad_ranks:
        named = ", ".join(map(str, bad.bad_ranks[:8]))
        whose = f" because of rank{'s' * (len(bad.bad_ranks) > 1)} {named}"
    return UserError(
        f"the loss of step {bad.step} is {bad.loss}{whose}, at learning rate {bad.rate:.4g}",
        suggest_remedy(last),
    )


def expect_finite(
    parts: Iterable[Any], done: int, last: Callable[[], str | None], *, is_finite: Callable[[Any], bool]
) -> None:
    """Check the weights before they are saved.

    Args:
        parts: the weights that this process has.
        done: finished steps.
        last: returns the name of the last good checkpoint.
        is_finite: whether all numbers of a part are finite.

    Raises:
        UserError: some number is not finite.
    """
    if not all(is_finite(part) for part in parts):
        raise UserError(
            f"after step {done} the weights are not finite numbers, so they are not saved",
            suggest_remedy(last()),
        )


def suggest_remedy(last: str | None) -> str:
    """Return the help for weights or losses that are not finite."""
    kept = f"the last good checkpoint is `{last}`" if last else "there is no earlier checkpoint"
    return (
        f"{kept}; lower the learning rate, warm up for longer, set `max_gradient_norm` to clip,"
        " or compute in `fp32` or `bf16`"
    )


def last_checkpoint_name(folder: Path) -> str | None:
    """Return the name of the newest checkpoint in a folder; None if there is none."""
    try:
        names = [path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return None
    return max(names, key=lambda name: int(name.removeprefix("step-")), default=None)


def tensor_is_finite(tensor: Any) -> bool:
    """Whether all numbers of a torch tensor, or of this rank's part of it, are finite."""
    local = tensor.detach()
    local = local.to_local() if hasattr(local, "to_local") else local
    if not local.is_floating_point():
        return True
    # One pass without a copy: the sum is finite only if all terms are (one that overflows is as bad).
    return math.isfinite(float((local if local.element_size() >= 4 else local.float()).sum()))
