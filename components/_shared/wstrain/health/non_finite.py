"""Numbers that are no numbers: what a training says that stops for one, and which checkpoint is from before.

A loss is read long after its step, to spare the device a wait, and one step's bad gradients only show in the
next one's loss. So before a state is saved, every loss up to it is read and the weights themselves are looked
at: a checkpoint is never of a state that has gone bad.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsshards.errors import UserError

MAX_OVERFLOWS = 20  # steps in a row that fp16's loss scale may skip before it is no use any more
_NAME = re.compile(r"step-\d{8,}")


@dataclass(frozen=True, slots=True)
class BadStep:
    """A step whose mean loss is not finite.

    Attributes:
        step: its number, from 1.
        loss: the mean over ranks.
        rate: the learning rate of the step.
        bad_ranks: whose own loss is not finite.
        world_size: ranks there are.
    """

    step: int
    loss: float
    rate: float
    bad_ranks: Sequence[int]
    world_size: int


def non_finite_error(bad: BadStep, last: str | None) -> UserError:
    """The error about a bad step.

    Args:
        bad: the step.
        last: the last good checkpoint's name, None without one.
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
    parts: Iterable[Any], done: int, last: Callable[[], str | None], *, sound: Callable[[Any], bool]
) -> None:
    """Look at the weights before they are saved.

    Args:
        parts: the weights that this process has.
        done: steps done.
        last: gives the last good checkpoint's name.
        sound: whether all numbers of a part are finite.

    Raises:
        UserError: one is not.
    """
    if not all(sound(part) for part in parts):
        raise UserError(
            f"after step {done} the weights are not finite numbers, so they are not saved",
            suggest_remedy(last()),
        )


def suggest_remedy(last: str | None) -> str:
    """What to do about numbers that are none."""
    kept = f"the last good checkpoint is `{last}`" if last else "there is no checkpoint from before"
    return (
        f"{kept}; lower the learning rate, warm up for longer, set `max_gradient_norm` to clip,"
        " or compute in `fp32` or `bf16`"
    )


def last_checkpoint_name(folder: Path) -> str | None:
    """The name of the newest checkpoint in a folder."""
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
    # One pass without a copy: a sum is finite only if its terms are, or if it overflows, which is as bad.
    return math.isfinite(float((local if local.element_size() >= 4 else local.float()).sum()))
