"""Plans one training step: batches, bubble of its pipeline, learning rate, warm-up, steps and shards."""

from __future__ import annotations

from worldsize.azureml import literals
from worldsize.base.span import Span
from worldsize.base.wording import plural, round_noise, show_number
from worldsize.planning import degrees
from worldsize.planning.batches import (
    Batches,
    Replicas,
    count_shards_per_rank,
    count_steps,
    plan_batches,
)
from worldsize.planning.learning_rate import batch_growth as growth
from worldsize.planning.model import Notes, Topology, Training
from worldsize.planning.options import Settings, verify_settings
from worldsize.planning.rates import Rate, plan_rate
from worldsize.spec.model import Scale, Step
from wstrain.scaling import default_warmup_epochs

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
    kappa = growth(batches.global_batch, reference.value)
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
            notes.derive("rows", counted, "", "counted in the data, validation rows left out")
        return counted
    notes.derive("rows", pinned.value, "", notes.given("scale.rows"))
    if counted is not None and counted != pinned.value:
        message = f"`rows` is {pinned.value} but the data has {counted} training rows"
        notes.report("rows-disagree", pinned.span, message, f"write {counted}, or remove it: it is counted")
    return pinned.value


def _drops_last(step: Step, scale: Scale, notes: Notes) -> bool:
    """Whether an incomplete last batch is no step: the built-in components drop it, a script says so."""
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
    help_ = f"{_remedy(stages, batches)}, or `pipeline_schedule: gpipe`"
    span = setting.span if setting is not None else settings.degree_span("pipeline")
    settings.notes.report("strategy-option-refused", span, message, help_)
    return True


def _remedy(stages: int, batches: Batches) -> str:
    """More micro-batches, of the same global batch where it can be cut that small."""
    wanted = degrees.count_micro_batches(stages)
    share = batches.per_device * batches.accumulation
    micro = degrees.divisor_near(share, wanted, 1) or wanted
    written = f"write `gradient_accumulation_steps: {micro}`"
    if micro <= share and share % micro == 0:
        written += f" and `batch_size_per_device: {share // micro}`, the same global batch,"
    return f"{written} to idle {_percent(stages, micro)}"


def _percent(stages: int, micro: int) -> str:
    return f"{degrees.bubble_share(stages, micro):.0%}".replace("%", " %")
