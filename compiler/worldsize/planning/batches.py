"""Plans the batches of a training step from pinned values and what worked on the reference device.

With ``b`` samples per device, ``a`` micro-batches and ``W`` replicas the global batch is ``G = b·a·W``.
Source: DeepSpeed's identity, train_batch_size = micro_batch_per_gpu × gradient_accumulation_steps × GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from worldsize.base.problem import Related
from worldsize.base.wording import plural
from worldsize.planning.model import Notes
from worldsize.spec.model import Located, Scale
from wstrain.data import step_counts
from wstrain.scaling import split_batch


class Replicas(NamedTuple):
    """The number of model copies that share a global batch, and their name in messages."""

    number: int
    name: str = "world size"


class Batches(Struct, frozen=True):
    """Samples: per device ``b``, in all ``global_batch``; ``accumulation`` counts micro-batches."""

    per_device: int
    accumulation: int
    global_batch: int


def plan_batches(scale: Scale, replicas: Replicas, notes: Notes) -> Batches | None:
    """Plan the batches; None if pinned values contradict each other. Problems are added to ``notes``."""
    start = _reference_per_device(scale, notes)
    if start is None:
        return None
    pinned = scale.global_batch_size
    if pinned is None:
        batches = _forwards(scale, start, replicas)
    else:
        shared = _backwards(scale, pinned, start, replicas, notes)
        if shared is None:
            return None
        batches = Batches(*shared, pinned.value)
    _explain(scale, batches, start, replicas, notes)
    return batches


def _reference_per_device(scale: Scale, notes: Notes) -> int | None:
    """The micro-batch known to fit a device: reference batch / reference devices, unless pinned."""
    if scale.batch_size_per_device:
        return scale.batch_size_per_device.value
    total, gpus = scale.reference_batch_size, scale.reference_gpus
    if gpus is None or total.value % gpus.value == 0:
        return total.value // (gpus.value if gpus else 1)
    near = " or ".join(str(value) for value in nearest_multiples(total.value, gpus.value))
    message = f"reference `batch_size` {total.value} is not a multiple of {gpus.value} reference GPUs"
    help_ = f"write {near}, the batch of all reference GPUs together; or pin `batch_size_per_device`"
    notes.report(
        "reference-batch-does-not-divide", total.span, message, help_, Related(gpus.span, "reference GPUs")
    )
    return None


def _forwards(scale: Scale, per_device: int, replicas: Replicas) -> Batches:
    pinned = scale.gradient_accumulation_steps
    accumulation = pinned.value if pinned else 1
    return Batches(per_device, accumulation, global_batch(per_device, accumulation, replicas.number))


def _backwards(
    scale: Scale, pinned: Located[int], start: int, replicas: Replicas, notes: Notes
) -> tuple[int, int] | None:
    """``(b, a)`` for a pinned global batch."""
    b, a = scale.batch_size_per_device, scale.gradient_accumulation_steps
    if b and a:
        return _verify(pinned, b, a, replicas, notes)
    unit = replicas.number * (b.value if b else a.value if a else 1)
    if pinned.value % unit:
        _does_not_factor(pinned, b, a, replicas, notes)
        return None
    rest = pinned.value // unit
    if b:
        return b.value, rest
    if a:
        return rest, a.value
    shared = split_batch(rest, start)
    _warn_small(pinned, shared, start, replicas, notes)
    return shared


def _verify(
    pinned: Located[int], b: Located[int], a: Located[int], replicas: Replicas, notes: Notes
) -> tuple[int, int] | None:
    product = global_batch(b.value, a.value, replicas.number)
    if product == pinned.value:
        return b.value, a.value
    message = (
        f"`global_batch_size` is {pinned.value} but {b.value} per device × {a.value} accumulation"
        f" × {replicas.number} {replicas.name} = {product}"
    )
    help_ = f"write `global_batch_size: {product}`, or leave one of the three to be derived"
    related = (Related(b.span, "per device"), Related(a.span, "accumulation"))
    notes.report("batch-identity", pinned.span, message, help_, *related)
    return None


def _does_not_factor(
    pinned: Located[int], b: Located[int] | None, a: Located[int] | None, replicas: Replicas, notes: Notes
) -> None:
    parts, related = [f"{replicas.name} {replicas.number}"], []
    if b:
        parts.insert(0, f"{b.value} per device")
        related.append(Related(b.span, "per device"))
    if a:
        parts.insert(0, f"{a.value} accumulation")
        related.append(Related(a.span, "accumulation"))
    unit = replicas.number * (b.value if b else a.value if a else 1)
    product = " × ".join(parts) + (f" = {unit}" if len(parts) > 1 else "")
    near = " or ".join(str(value) for value in nearest_multiples(pinned.value, unit))
    message = f"`global_batch_size` is {pinned.value}, which is not a multiple of {product}"
    plural_ = "the nearest valid ones" if " or " in near else "the smallest valid one"
    notes.report("global-batch-does-not-factor", pinned.span, message, f"write {near}, {plural_}", *related)


def _warn_small(
    pinned: Located[int], shared: tuple[int, int], start: int, replicas: Replicas, notes: Notes
) -> None:
    """Warn if a rank's share has no large divisor and is computed in many small micro-batches."""
    per_device, accumulation = shared
    if per_device * 2 > min(start, per_device * accumulation):
        return
    near = " or ".join(str(value) for value in nearest_multiples(pinned.value, start * replicas.number))
    message = (
        f"`global_batch_size` {pinned.value} leaves {per_device} per device in {accumulation} micro-batches:"
        f" {per_device * accumulation} per process has no larger divisor up to {start}"
    )
    help_ = f"write {near} to keep {start} per device"
    notes.report("micro-batch-small", pinned.span, message, help_)


def _explain(scale: Scale, batches: Batches, start: int, replicas: Replicas, notes: Notes) -> None:
    pinned = scale.global_batch_size is not None
    reference, gpus = (
        scale.reference_batch_size.value,
        scale.reference_gpus.value if scale.reference_gpus else 1,
    )
    if scale.batch_size_per_device:
        row = ("", notes.given("scale.batch_size_per_device"))
    elif pinned and batches.per_device != start:
        row = (
            f"{batches.global_batch} / {replicas.number} / {batches.accumulation}",
            "from the global batch",
        )
    else:
        row = (f"{reference} / {plural(gpus, 'reference GPU')}", notes.given("scale.reference"))
    notes.derive("batch_size_per_device", batches.per_device, *row)
    if scale.gradient_accumulation_steps:
        row = ("", notes.given("scale.gradient_accumulation_steps"))
    elif pinned:
        row = (f"{batches.global_batch} / {batches.per_device} / {replicas.number}", "from the global batch")
    else:
        row = ("", "default")
    notes.derive("gradient_accumulation_steps", batches.accumulation, *row)
    formula = f"{batches.per_device} × {batches.accumulation} × {replicas.number}"
    source = (
        notes.given("scale.global_batch_size") if pinned else f"per device × accumulation × {replicas.name}"
    )
    notes.derive("global_batch_size", batches.global_batch, formula, source)


def global_batch(per_device: int, accumulation: int, world_size: int) -> int:
    """``G = b·a·W``, the samples behind one optimizer step."""
    return per_device * accumulation * world_size


def nearest_multiples(wanted: int, unit: int) -> tuple[int, ...]:
    """The multiples of ``unit`` next to ``wanted``: below and above it, or only above if none is below."""
    below = wanted // unit * unit
    above = below + unit
    if below == wanted:
        return (wanted,)
    return (below, above) if below else (above,)


class Steps(Struct, frozen=True):
    """Optimizer steps; None if rows or epochs are unknown."""

    per_epoch: int | None
    total: int | None
    warmup: int | None


def count_steps(
    rows: int | None,
    global_batch: int,
    epochs: float | None,
    warmup_epochs: float,
    *,
    drop_last: bool = True,
) -> Steps:
    """Count the steps per epoch, in total, and of the warm-up; what is None is unknown before the run."""
    if rows is None:
        return Steps(None, None, 0 if warmup_epochs == 0 else None)
    counted = rows if drop_last else rows + global_batch - 1  # the incomplete batch is a step too
    per_epoch = step_counts.steps_per_epoch(counted, global_batch)
    total = None if epochs is None else step_counts.total_steps(epochs, per_epoch)
    return Steps(per_epoch, total, step_counts.warmup_steps(warmup_epochs, per_epoch))


def count_shards_per_rank(world_size: int, loader_workers: int, rows: int | None) -> int:
    """Count the shards of each rank: one per loader worker, fewer if there are few rows, at least one."""
    wanted = max(loader_workers, 1)
    return wanted if rows is None else max(1, min(wanted, rows // world_size))
