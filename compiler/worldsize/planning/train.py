"""Plans one training step: batches, bubble of its pipeline, learning rate, warm-up, steps and shards."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from worldsize.azureml import literals
from worldsize.base.problem import Related
from worldsize.base.span import Span
from worldsize.base.wording import plural, round_noise, show_number
from worldsize.planning import degrees
from worldsize.planning.model import COUNTED, Notes, Topology, Training
from worldsize.planning.options import Settings, verify_settings
from worldsize.planning.rates import Rate, batch_growth, plan_rate
from worldsize.spec.model import Located, Scale, Step
from wstrain.data import step_counts
from wstrain.scaling import default_warmup_epochs, split_batch

MAX_STEPS = 2**31 - 1  # as many as the spec's schema allows of anything


def plan_training(settings: Settings, counted: int | None) -> Training | None:
    """Plan the training; None if it cannot be derived. Rows, advice and problems are added to the notes.

    ``counted`` is the number of training rows in the data, None where it is unknown.
    """
    scale, notes = settings.scale, settings.notes
    verify_settings(settings)
    replicas = _replicas(settings.topology, notes)
    batches = plan_batches(scale, replicas, notes)
    if batches is None:
        return None
    check_pipeline_bubble(settings, batches)
    kappa = _kappa(scale, batches, notes)
    scaled = plan_rate(settings, kappa, batches.global_batch)
    if scaled is None:
        return None
    epochs = _epochs(settings)
    warm = _warmup(scale, scaled, kappa, epochs, notes)
    rows = _rows(scale, counted, notes)
    drops = _drops_last(settings.step, scale, notes)
    counts = count_steps(rows, batches.global_batch, epochs, warm, drop_last=drops)
    loaders = settings.find("loader_workers")
    workers = literals.parse_number(loaders.value) if loaders else None
    per_rank = count_shards_per_rank(replicas.number, int(workers or 1), rows)
    training = Training(
        optimizer=scaled.optimizer,
        batch_size_per_device=batches.per_device,
        gradient_accumulation_steps=batches.accumulation,
        global_batch_size=batches.global_batch,
        reference_batch_size=scale.reference_batch_size.value,
        kappa=kappa,
        rule=scaled.rule,
        reference_learning_rate=scale.reference_learning_rate.value,
        learning_rate=scaled.learning_rate,
        epochs=epochs,
        warmup_epochs=warm,
        rows=rows,
        steps_per_epoch=counts.per_epoch,
        total_steps=counts.total,
        warmup_steps=counts.warmup,
        shard_count=per_rank * replicas.number,
        shards_per_rank=per_rank,
    )
    _check_length(settings, training)
    _explain_steps(training, drops, notes)
    formula = f"{replicas.number} × {per_rank}"
    notes.derive("shard_count", training.shard_count, formula, f"{replicas.name} × shards per rank")
    source = f"{loaders.source}: loader_workers" if loaders else "default"
    notes.derive("shards_per_rank", per_rank, "one a loader worker", source)
    return training


def _replicas(topology: Topology, notes: Notes) -> Replicas:
    """The ranks that share a global batch, or the replicas if a replica spans several ranks."""
    if topology.parameter_server_count:
        notes.advice.append(
            "with parameter servers each worker updates the weights on its own: there is no global batch that"
            " workers share, so neither it nor the learning rate grows with their number, and no two runs are"
            " alike"
        )
        return Replicas(1, "worker an update")
    if topology.splits_model:
        return Replicas(topology.data_parallel_size, "data-parallel size")
    return Replicas(topology.world_size)


def _kappa(scale: Scale, batches: Batches, notes: Notes) -> float:
    reference = scale.reference_batch_size
    kappa = batch_growth(batches.global_batch, reference.value)
    notes.derive(
        "kappa", kappa, f"{batches.global_batch} / {reference.value}", "global batch / reference batch"
    )
    if kappa < 1:
        pinned = scale.global_batch_size or scale.batch_size_per_device or reference
        message = (
            f"the global batch {batches.global_batch} is smaller than the reference batch {reference.value}:"
            f" κ is {show_number(kappa)}"
        )
        help_ = f"the learning rate shrinks with it; write `global_batch_size: {reference.value}` to keep it"
        notes.report("kappa-below-one", pinned.span, message, help_)
    return kappa


def _epochs(settings: Settings) -> float | None:
    setting, notes = settings.number("epochs"), settings.notes
    if setting is None or setting[0] < 0:  # a negative number is outside the range of the input
        return None
    if setting[0] == 0:
        message, help_ = "`epochs` is 0, so no optimizer step is made", "give more `epochs`"
        notes.report("training-shorter-than-one-step", _epochs_span(settings), message, help_)
        return None
    notes.derive("epochs", setting[0], "", setting[1])
    return setting[0]


def _epochs_span(settings: Settings) -> Span:
    setting = settings.find("epochs")
    return setting.span if setting else settings.scale.span


def _warmup(scale: Scale, scaled: Rate, kappa: float, epochs: float | None, notes: Notes) -> float:
    """Epochs of warm-up, verified against the length of the training."""
    pinned = scale.warmup_epochs
    reference = show_number(scale.reference_learning_rate.value)
    formula = f"from {reference} to {show_number(scaled.learning_rate)}"
    if pinned is None:
        value = default_warmup_epochs(scaled.rule, kappa, epochs)
        source = "default: 5 epochs, at most a tenth; Goyal et al. 2017"
        if not value:
            source = f"no warm-up is the default for rule {scaled.rule} with κ {show_number(kappa)}"
        notes.derive("warmup_epochs", value, formula if value else "", source)
        return value
    notes.derive(
        "warmup_epochs", pinned.value, formula if pinned.value else "", notes.given("scale.warmup_epochs")
    )
    if epochs is not None and pinned.value > epochs:
        message = (
            f"`warmup_epochs` is {show_number(pinned.value)} but training lasts {plural(epochs, 'epoch')},"
            f" so the learning rate never reaches {show_number(scaled.learning_rate)}"
        )
        default = show_number(default_warmup_epochs(scaled.rule, kappa, epochs))
        notes.report("warmup-longer-than-training", pinned.span, message, f"write {default}, or remove it")
    return pinned.value


def _rows(scale: Scale, counted: int | None, notes: Notes) -> int | None:
    pinned = scale.rows
    if pinned is None:
        if counted is not None:
            notes.derive("rows", counted, "", COUNTED)
        return counted
    notes.derive("rows", pinned.value, "", notes.given("scale.rows"))
    if counted is not None and counted != pinned.value:
        message = f"`rows` is {pinned.value} but the data has {counted} training rows"
        notes.report("rows-disagree", pinned.span, message, f"write {counted}, or remove it: it is counted")
    return pinned.value


def _drops_last(step: Step, scale: Scale, notes: Notes) -> bool:
    """Whether an incomplete last batch is no step: the built-in components drop it, a script may keep it."""
    keeps = scale.drop_last is not None and not scale.drop_last.value
    if scale.drop_last is not None and keeps and step.command is None:
        message = "`drop_last` is false, but only a step with its own `command` can keep an incomplete batch"
        notes.report("scale-disagrees-with-input", scale.drop_last.span, message, "remove it")
        return True
    return not keeps


def _check_length(settings: Settings, training: Training) -> None:
    """A training must have at least one step, and no more than a counter holds."""
    scale, notes = settings.scale, settings.notes
    rows, epochs = training.rows, training.epochs or 0
    if rows is None:
        return
    if training.steps_per_epoch == 0:
        at = (
            scale.global_batch_size or scale.rows or scale.batch_size_per_device or scale.reference_batch_size
        )
        are = "is" if rows == 1 else "are"
        message = (
            f"{plural(rows, 'training row')} {are} fewer than one global batch of"
            f" {training.global_batch_size}"
        )
        help_ = "give more data, or run on fewer instances with a smaller `global_batch_size`"
        notes.report("rows-fewer-than-global-batch", at.span, message, help_)
    elif training.total_steps == 0:
        length = f"{plural(epochs, 'epoch')} of {plural(training.steps_per_epoch or 0, 'step')}"
        message = f"{length} are less than one optimizer step"
        notes.report("training-shorter-than-one-step", _epochs_span(settings), message, "give more `epochs`")
    elif training.total_steps is not None and training.total_steps > MAX_STEPS:
        message = f"`epochs` is {show_number(epochs)}: more than {MAX_STEPS} optimizer steps"
        notes.report("input-out-of-range", _epochs_span(settings), message, "give fewer `epochs`")


def _explain_steps(training: Training, drops: bool, notes: Notes) -> None:
    if training.rows is None:
        notes.advice.append(
            "training rows are unknown here, so steps are counted when the data is there;"
            " give `rows:` under `scale:` to plan them"
        )
        return
    division = f"{training.rows} / {training.global_batch_size}"
    formula, source = f"⌊{division}⌋", "an incomplete last batch is dropped"
    if not drops:
        formula, source = f"⌈{division}⌉", "an incomplete last batch is a step too"
    notes.derive("steps_per_epoch", training.steps_per_epoch or 0, formula, source)
    if training.total_steps is not None:
        formula = f"{plural(training.epochs or 0, 'epoch')} × {training.steps_per_epoch}"
        notes.derive("total_steps", training.total_steps, formula, "rounded half up")
    if training.warmup_steps is not None and training.warmup_epochs:
        formula = f"{plural(training.warmup_epochs, 'epoch')} × {training.steps_per_epoch}"
        notes.derive("warmup_steps", training.warmup_steps, formula, "rounded half up")


_OTHER_DEGREE = (
    "model-not-splittable",
    "model-parallelism-unsupported",
    "pipeline-degree-does-not-divide-layers",
    "strategy-contradicts-degrees",
)


def check_pipeline_bubble(settings: Settings, batches: Batches) -> None:
    """Derive the pipeline's bubble; warn where there are fewer micro-batches than stages.

    The micro-batches of gradient accumulation are those that flow through the pipeline.
    """
    notes, stages = settings.notes, settings.topology.pipeline_parallel_size
    micro = batches.accumulation
    if stages == 1:
        return
    share = round_noise(round(degrees.bubble_share(stages, micro), 4))
    formula = f"({stages} − 1) / ({micro} + {stages} − 1)"
    notes.derive("pipeline_bubble", share, formula, "idle share of a step, Huang et al. 2019")
    if any(problem.slug in _OTHER_DEGREE for problem in notes.problems):
        return  # the degree has to change first
    if micro < stages and _starves(settings, stages, batches):
        return
    if share < degrees.TOLERABLE_BUBBLE:
        return
    remedy = _remedy(stages, batches)
    if micro >= stages:
        notes.advice.append(f"the pipeline idles {_percent(stages, micro)} of a step; {remedy}")
        return
    pinned = settings.scale.gradient_accumulation_steps
    span = pinned.span if pinned is not None else settings.degree_span("pipeline")
    message = (
        f"`gradient_accumulation_steps` {micro} is below the {stages} pipeline stages:"
        f" they idle {_percent(stages, micro)} of a step, ({stages} − 1) / ({micro} + {stages} − 1)"
    )
    notes.report("pipeline-bubble", span, message, remedy)


def _starves(settings: Settings, stages: int, batches: Batches) -> bool:
    """Whether the schedule needs more micro-batches, as torch's ``Schedule1F1B`` does; reported if so."""
    if settings.read("pipeline_schedule") != "1f1b":
        return False
    setting = settings.step.with_.get("pipeline_schedule")
    message = (
        f"schedule `1f1b` needs a micro-batch for each of {stages} pipeline stages,"
        f" but `gradient_accumulation_steps` is {batches.accumulation}"
    )
    span = setting.span if setting is not None else settings.degree_span("pipeline")
    settings.notes.report("strategy-option-refused", span, message, _remedy(stages, batches))
    return True


def _remedy(stages: int, batches: Batches) -> str:
    """More micro-batches, of the same global batch where it can be cut that small."""
    wanted = degrees.count_micro_batches(stages)
    share = batches.per_device * batches.accumulation
    micro = degrees.divisor_near(share, wanted, 1) or wanted
    written, same = f"write `gradient_accumulation_steps: {micro}`", ""
    if micro <= share and share % micro == 0:
        written, same = f"{written} and `batch_size_per_device: {share // micro}`", ", the same global batch,"
    return f"{written} under `scale:`{same} to idle {_percent(stages, micro)}"


def _percent(stages: int, micro: int) -> str:
    return f"{degrees.bubble_share(stages, micro):.0%}".replace("%", " %")


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
    rows: int | None, global_batch: int, epochs: float | None, warmup_epochs: float, *, drop_last: bool = True
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
