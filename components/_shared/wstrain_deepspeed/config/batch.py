"""The batch identity: ``train_batch_size`` is micro-batch × accumulation × processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wstrain_deepspeed.config.finding import Finding, Known, whole

TRAIN, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_LABELS = {MICRO: "micro-batch", STEPS: "accumulation"}


def check(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """The three numbers against the processes and the plan, as DeepSpeed's ``_batch_assertion`` would.

    It works out those that are left out, so one of the first two is enough.
    """
    given = {name: config[name] for name in (TRAIN, MICRO, STEPS) if config.get(name) is not None}
    numbers = {name: whole(value) for name, value in given.items()}
    filled_in = known.pinned and known.micro_batch is not None  # by `own`, from the plan
    if TRAIN not in given and MICRO not in given and not filled_in:
        message = "the configuration has no batch size, and DeepSpeed cannot start without one"
        yield Finding("batch-missing", (), message, f"add `{MICRO}`, or `{TRAIN}` for all processes together")
    if any(value is None or value < 1 for value in numbers.values()):
        return  # `auto`, a text or a number that is no count, each reported as such
    found = list(_identity(numbers, known.world)) if known.world is not None else []
    yield from found or _plan(numbers, known)


def _identity(numbers: Mapping[str, int | None], world: int) -> Iterator[Finding]:
    train = numbers.get(TRAIN)
    parts = {name: number for name in (MICRO, STEPS) if (number := numbers.get(name)) is not None}
    if train is None:
        return
    product = world
    for number in parts.values():
        product *= number
    factors = " × ".join([*map(str, parts.values()), f"{world} process{'es' * (world != 1)}"])
    related = tuple(((name,), _LABELS[name]) for name in parts)
    if len(parts) == 2 and train != product:
        message = f"`{TRAIN}` is {train}, but {factors} is {product}"
        yield Finding("batch", (TRAIN,), message, _help(train, product, world), related=related)
    elif len(parts) < 2 and train % product:
        message = f"`{TRAIN}` is {train}, which is no multiple of {factors}"
        message += f" = {product}" if parts else ""
        near = max(train // product, 1) * product
        yield Finding(
            "batch", (TRAIN,), message, f"write a multiple of {product}, such as {near}", related=related
        )


def _help(train: int, product: int, world: int) -> str:
    """Where the numbers fit another count of processes, the launch may be what is wrong."""
    fitting, rest = divmod(train * world, product)
    if rest or fitting < 1:
        return f"write {product}"
    return f"write {product}, or start {fitting} process{'es' * (fitting != 1)}, for which the numbers fit"


def _plan(numbers: Mapping[str, int | None], known: Known) -> Iterator[Finding]:
    """The numbers against those of the plan; the total only where its parts say nothing."""
    wanted = {MICRO: known.micro_batch, STEPS: known.accumulation}
    differs = False
    for name, value in wanted.items():
        number = numbers.get(name)
        if number is not None and value is not None and number != value:
            differs = True
            message = f"`{name}` is {number}, but the plan's {_LABELS[name]} is {value}"
            yield Finding("plan", (name,), message, f"write {value}, or leave it out")
    train = numbers.get(TRAIN)
    if differs or train is None or None in (known.micro_batch, known.accumulation, known.world):
        return
    product = (known.micro_batch or 1) * (known.accumulation or 1) * (known.world or 1)
    if train != product:
        message = f"`{TRAIN}` is {train}, but the plan's global batch is {product}"
        yield Finding("plan", (TRAIN,), message, f"write {product}, or leave it out")
