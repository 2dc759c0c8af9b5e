"""What ``worldsize advise`` is asked: trainings from a file, VM sizes, tiers and prices from options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click
from msgspec import Struct
from msgspec.structs import replace

from worldsize import api
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.checking import CheckedSpec, settings
from worldsize.cli import common, price_commands
from worldsize.documents import yaml
from worldsize.facts import vm_sizes
from worldsize.facts.prices import TIERS, PriceList, Tier
from worldsize.facts.vm_sizes import Learned, VmSize
from worldsize.planning.advising import clusters
from worldsize.planning.advising.model import Choice, Option, Question, Subject
from worldsize.planning.advising.options import make_option
from worldsize.planning.estimates.calibration import Calibration
from worldsize.planning.estimates.model import Transformer
from worldsize.resolving.advice_subjects import describe_file, read_steps
from worldsize.resolving.measured_case import MeasuredRun, calibrate_from_runs, choose_runs
from worldsize.resolving.workloads import explain_unknown_size
from worldsize.spec import is_spec


class Request(Struct, frozen=True):
    """The options of the command that say what may be chosen and how much is trained."""

    sizes: str | None
    tiers: str | None
    max_instances: int
    samples: float | None
    tokens: float | None
    region: str | None
    keep_layout: bool


class Read(Struct, frozen=True):
    """The trainings of a file for which clusters can be compared; ``unknown`` says why of the others."""

    subjects: tuple[Subject, ...]
    unknown: Mapping[str, str]
    checked: CheckedSpec | None  # of a spec; None for an estimate file


class Asked(Struct, frozen=True):
    """The trainings of a file; ``read`` is all of it."""

    subjects: tuple[Subject, ...]
    prices: PriceList
    sizes: tuple[VmSize, ...]
    tiers: tuple[Tier, ...]
    read: Read
    learned: Learned


def read_asked(file: Path, request: Request, step: str | None) -> Asked:
    """Read the file and the project's settings; exits if a name is unknown.

    Raises:
        SpecError: The file has errors.
    """
    project = settings.read_project_settings(file.parent)
    sizes = _choose_sizes(request.sizes, project.vm_sizes)
    tiers = _choose_tiers(request.tiers)
    prices = price_commands.read_project_prices(project, request.region)
    read = _read_subjects(file)
    return Asked(_select(read, step), prices, sizes, tiers, read, project.vm_sizes)


def _read_subjects(file: Path) -> Read:
    """The trainings of a spec, or that of an estimate file."""
    document = yaml.load(file)
    if not is_spec(document):
        return Read((describe_file(file.stem, api.estimate(file).case),), {}, None)
    checked = api.plan_spec(file, document)
    subjects, unknown = read_steps(checked.planned, checked.plan)
    return Read(subjects, unknown, checked)


def _select(read: Read, step: str | None) -> tuple[Subject, ...]:
    """The trainings that are asked about; exits if there are none."""
    chosen = tuple(subject for subject in read.subjects if step in (None, subject.name))
    if not chosen:
        _refuse_none(read, step)
    return chosen


def _refuse_none(read: Read, step: str | None) -> NoReturn:
    """Exit, with the reason why no training of the file can be asked about."""
    reasons = [f"`{name}`: {why}" for name, why in read.unknown.items() if step in (None, name)]
    if reasons:
        common.refuse("; ".join(reasons), "`worldsize advise FILE` also takes an estimate file")
    if step is not None:
        names = [*(subject.name for subject in read.subjects), *read.unknown]
        common.refuse(f"no step `{step}` trains", did_you_mean(step, names))
    common.refuse("no step trains", "a step that trains has `scale:`")


def make_question(
    asked: Asked, subject: Subject, request: Request, runs: Sequence[MeasuredRun] = ()
) -> Question:
    """The question about one training, calibrated by runs of it; exits if nothing says how long it is.

    Raises:
        UnusableRunError: A run tells nothing of the training.
    """
    case = subject.case
    training = case.training
    kept = (training.tensor_parallel, training.pipeline_parallel)
    choice = Choice(
        sizes=asked.sizes,
        max_instances=request.max_instances,
        tiers=asked.tiers,
        shardings=subject.shardings,
        divides_layers=subject.divides_layers,
        combines_sharding=subject.combines_sharding,
        recomputes=subject.recomputes,
        automatic_precision=subject.automatic_precision,
    )
    if request.keep_layout:
        sharding = ((training.strategy, training.zero_stage),)
        choice = replace(choice, shardings=sharding, recomputes=(training.recomputation,), degrees=kept)
    return Question(
        workload=case.workload,
        training=training,
        global_batch=case.global_batch,
        samples=_count_samples(subject, request),
        choice=choice,
        find_price=asked.prices.find,
        checkpoint_seconds=subject.checkpoint_seconds,
        input_samples_per_s=case.cluster.input_samples_per_s,
        calibration=_calibrate(asked, subject, runs),
    )


def _calibrate(asked: Asked, subject: Subject, runs: Sequence[MeasuredRun]) -> Calibration:
    read = asked.read
    own = choose_runs(runs, subject.name, [*(each.name for each in read.subjects), *read.unknown])
    return calibrate_from_runs(subject.case.workload, own, asked.learned)


def describe_present(question: Question, subject: Subject) -> Option | None:
    """What the user has now, with its time and money."""
    return make_option(question, subject.case.cluster, subject.case.training, subject.tier)


def _count_samples(subject: Subject, request: Request) -> float:
    if request.samples is not None:
        return request.samples
    workload = subject.case.workload
    if request.tokens is not None:
        if not isinstance(workload, Transformer):
            raise click.UsageError(f"`--tokens` counts text, but `{subject.name}` trains on samples")
        return request.tokens / workload.sequence_length
    if subject.samples is None:
        common.refuse(
            f"nothing says how long the training of `{subject.name}` is",
            "add `--samples N` or `--tokens N`; a spec says it by its epochs and `scale.rows`",
        )
    return subject.samples


def _choose_sizes(names: str | None, learned: Learned) -> tuple[VmSize, ...]:
    if names is None:
        return tuple(clusters.list_sizes())
    return tuple(_find_size(name, learned) for name in dict.fromkeys(_split(names)))


def _find_size(name: str, learned: Learned) -> VmSize:
    size = vm_sizes.lookup(name, learned)
    if size is None:
        common.refuse(*explain_unknown_size(name, learned))
    if not clusters.is_usable(size):
        known = [known.name for known in clusters.list_known_sizes()]
        common.refuse(
            f"`{size.name}` is not a size to advise: {_explain_unusable(size)}",
            f"choose of {quoted_list(known, 30)}",
        )
    return size


def _explain_unusable(size: VmSize) -> str:
    if size.status != "current":
        return f"it is {size.status}"
    if size.is_growth_restricted:
        return "Azure gives no more of it to new subscriptions"
    if not size.gpus:
        return "it has no GPU"
    if size.gpus != size.devices:
        return f"it has a share of {size.gpu_model}"
    return f"no speed is known of {size.gpu_model or 'its GPUs'}"


def _choose_tiers(names: str | None) -> tuple[Tier, ...]:
    if names is None:
        return TIERS
    wanted = _split(names)
    for name in wanted:
        if name not in TIERS:
            raise click.UsageError(f"`{name}` is not a tier: {did_you_mean(name, TIERS)}")
    return tuple(tier for tier in TIERS if tier in wanted)


def _split(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise click.UsageError("a list of names is empty")
    return names
