"""`worldsize.advise`: the clusters on which the trainings of a file are fastest and cheapest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from worldsize import api
from worldsize.base import untrusted
from worldsize.base.problem import HelpfulError
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.checking import CheckedSpec, check_spec, discover, settings
from worldsize.checking.fixing import Change, Setting, SettingError, replace_content, set_values
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.errors import OutputError
from worldsize.facts import vm_sizes
from worldsize.facts.prices import TIERS, PriceList, Tier, read_price_list
from worldsize.facts.vm_sizes import Learned, VmSize, explain_unknown_size
from worldsize.planning.advising import search
from worldsize.planning.advising.model import Advice, Choice, Limits, Option, OtherBatch, Question, Subject
from worldsize.planning.advising.options import make_option
from worldsize.planning.advising.search import advise as find_clusters
from worldsize.planning.advising.search import try_other_batches
from worldsize.planning.estimates.measured_case import MeasuredRun, calibrate_from_runs, choose_runs
from worldsize.planning.estimates.model import Case
from worldsize.resolving.advice import describe_file, explain_refusal, list_settings, read_steps
from worldsize.spec.workload import Transformer

_MARK = "\ufeff".encode()


class AdviceError(HelpfulError):
    """There is no advice for a file, or it cannot be applied. ``help`` says what to do."""


class WrongChoiceError(ValueError):
    """What is asked for contradicts itself, or names what does not exist."""


class NotExpressibleError(Exception):
    """A spec cannot say what is advised for a step; ``settings`` are what it would have to say."""

    def __init__(self, reason: str, subject: Subject, option: Option, settings: Sequence[Setting]) -> None:
        super().__init__(f"the option cannot be written into step `{subject.name}`: {reason}")
        self.option = option
        self.settings = settings


class Request(Struct, frozen=True):
    """What may be chosen, and how much is trained."""

    sizes: Sequence[str] | None = None
    tiers: Sequence[str] | None = None
    max_instances: int = 16
    samples: float | None = None
    tokens: float | None = None
    region: str | None = None
    keep_layout: bool = False


class Asked(Struct, frozen=True):
    """The trainings that are asked about, and what may be rented for them."""

    subjects: tuple[Subject, ...]
    trainings: tuple[str, ...]  # all of the file, by their names
    checked: CheckedSpec | None  # of a spec; None for an estimate file
    prices: PriceList
    sizes: tuple[VmSize, ...]
    tiers: tuple[Tier, ...]
    learned: Learned


class AdvisedStep(NamedTuple):
    """The advice for one training."""

    subject: Subject
    samples: float  # to train with in all
    advice: Advice
    others: Sequence[OtherBatch]  # what other global batches would mean


class Advised(Struct, frozen=True):
    """The advice for the trainings of a file, and what it was chosen from."""

    file: Path
    steps: tuple[AdvisedStep, ...]
    limits: Limits
    prices: PriceList
    sizes: tuple[VmSize, ...]
    checked: CheckedSpec | None  # of a spec; None for an estimate file


class EditedSpec(Struct, frozen=True):
    """A spec that says what was advised; nothing is written."""

    change: Change
    warnings: tuple[Diagnostic, ...]
    sources: Sources


def advise(
    file: str | os.PathLike[str],
    *,
    deadline: float | None = None,
    budget: float | None = None,
    max_instances: int = 16,
    sizes: Sequence[str] | None = None,
    tiers: Sequence[Tier] | None = None,
    samples: float | None = None,
    tokens: float | None = None,
    region: str | None = None,
    runs: Sequence[MeasuredRun] = (),
    keep_layout: bool = False,
    step: str | None = None,
) -> Advised:
    """Find the clusters on which the trainings of a spec, or of an estimate file, are fastest and cheapest.

    Args:
        file: The spec, or the file of a workload.
        deadline: The longest time, in seconds.
        budget: The highest cost, in the currency of the prices.
        max_instances: The most instances of a cluster.
        sizes: Only these VM sizes; by default those that Azure sells to anyone.
        tiers: ``dedicated``, ``low_priority``, or by default both.
        samples: To train with in all; by default what the spec says.
        tokens: The same for text.
        region: Of the prices; by default that of ``worldsize.yml``, else East US.
        runs: That trained this, by which the times are calibrated.
        keep_layout: Whether strategy, degrees and recomputation stay as they are.
        step: Only this step of a spec.

    Returns:
        The advice; that of a step has an empty front if no cluster is within the limits.

    Raises:
        AdviceError: Nothing in the file trains, or nothing says for how long.
        WrongChoiceError: A tier does not exist, or ``tokens`` does not go with the workload.
        SpecError: The file has errors.
        PriceFileError: The prices that the project has read from Azure cannot be read again.
        UnusableRunError: A run tells nothing of the training.
    """
    if samples is not None and tokens is not None:
        raise WrongChoiceError("`samples` and `tokens` exclude each other")
    request = Request(sizes, tiers, max_instances, samples, tokens, region, keep_layout)
    asked, limits = read_asked(Path(file), request, step), Limits(deadline, budget)
    steps = tuple(_advise_step(asked, subject, request, limits, runs) for subject in asked.subjects)
    return Advised(Path(file), steps, limits, asked.prices, asked.sizes, asked.checked)


def _advise_step(
    asked: Asked, subject: Subject, request: Request, limits: Limits, runs: Sequence[MeasuredRun]
) -> AdvisedStep:
    question = make_question(asked, subject, request, runs)
    present = make_option(question, subject.case.cluster, subject.case.training, subject.tier)
    advice = find_clusters(question, limits, present)
    others = try_other_batches(question, subject.rate, limits) if advice.front else []
    return AdvisedStep(subject, question.samples, advice, others)


def read_asked(file: Path, request: Request, step: str | None) -> Asked:
    """Read the file and the project's settings.

    Raises:
        SpecError: The file has errors.
        AdviceError: A name is unknown, or nothing trains.
    """
    project = settings.read_project_settings(file.parent)
    named = [_find_size(name, project.vm_sizes) for name in dict.fromkeys(request.sizes or ())]
    sizes = tuple(search.list_sizes() if request.sizes is None else named)
    tiers = _choose_tiers(request.tiers)
    prices = read_price_list(request.region or project.region, Path(os.path.relpath(project.prices_file)))
    document, checked, unknown = yaml.load(file), None, dict[str, str]()
    if discover.recognise_kind(document, named=True) == "spec":
        checked = check_spec(file, document)
        subjects, unknown = read_steps(checked.planned)
    else:
        subjects = (describe_file(file.stem, api.estimate(file).case),)
    trainings = (*(subject.name for subject in subjects), *unknown)
    chosen = tuple(subject for subject in subjects if step in (None, subject.name))
    if not chosen:
        raise _explain_none(unknown, trainings, step)
    return Asked(chosen, trainings, checked, prices, sizes, tiers, project.vm_sizes)


def _explain_none(unknown: Mapping[str, str], trainings: Sequence[str], step: str | None) -> AdviceError:
    """Why no training of the file can be asked about."""
    reasons = [f"`{name}`: {why}" for name, why in unknown.items() if step in (None, name)]
    if reasons:
        return AdviceError("; ".join(reasons), "`worldsize advise FILE` also takes an estimate file")
    if step is not None:
        return AdviceError(f"no step `{step}` trains", did_you_mean(step, trainings))
    return AdviceError("no step trains", "a step that trains has `scale:`")


def make_question(
    asked: Asked, subject: Subject, request: Request, runs: Sequence[MeasuredRun] = ()
) -> Question:
    """The question about one training, calibrated by runs of it.

    Raises:
        AdviceError: Nothing says how long it is.
        UnusableRunError: A run tells nothing of the training.
    """
    case, layouts = subject.case, subject.layouts
    training = case.training
    if request.keep_layout:
        layouts = replace(
            layouts,
            shardings=((training.strategy, training.zero_stage),),
            recomputes=(training.recomputation,),
            degrees=(training.tensor_parallel, training.pipeline_parallel),
        )
    most = min(request.max_instances, subject.max_instances or request.max_instances)
    its_runs = choose_runs(runs, subject.name, asked.trainings)
    return Question(
        workload=case.workload,
        training=training,
        global_batch=case.global_batch,
        samples=_count_samples(subject, request),
        choice=Choice(asked.sizes, most, asked.tiers, layouts),
        find_price=asked.prices.find,
        checkpoint_seconds=subject.checkpoint_seconds,
        input_samples_per_s=case.cluster.input_samples_per_s,
        calibration=calibrate_from_runs(case.workload, its_runs, asked.learned),
        count_memory=subject.count_memory,
    )


def _count_samples(subject: Subject, request: Request) -> float:
    if request.samples is not None:
        return request.samples
    workload = subject.case.workload
    if request.tokens is not None:
        if not isinstance(workload, Transformer):
            raise WrongChoiceError(f"`--tokens` counts text, but `{subject.name}` trains on samples")
        return request.tokens / workload.sequence_length
    if subject.samples is None:
        raise AdviceError(
            f"nothing says how long the training of `{subject.name}` is",
            "add `--samples N` or `--tokens N`; a spec says it by its epochs and `scale.rows`",
        )
    return subject.samples


def _find_size(name: str, learned: Learned) -> VmSize:
    size = vm_sizes.lookup(name, learned)
    if size is None:
        raise AdviceError(*explain_unknown_size(name, learned))
    if not search.is_usable(size):
        names = [size.name for size in search.list_known_sizes()]
        raise AdviceError(
            f"`{size.name}` is not a size to advise: {_explain_unusable(size)}",
            f"choose of {quoted_list(names, 30)}",
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


def _choose_tiers(names: Sequence[str] | None) -> tuple[Tier, ...]:
    if names is None:
        return TIERS
    for name in names:
        if name not in TIERS:
            raise WrongChoiceError(f"`{name}` is not a tier: {did_you_mean(name, TIERS)}")
    return tuple(tier for tier in TIERS if tier in names)


def edit_spec(advised: Advised) -> EditedSpec:
    """Put the chosen options into the spec that was asked about; nothing is written.

    Raises:
        AdviceError: The file is not a spec, or another step would change too.
        NotExpressibleError: An option cannot be expressed in the spec.
        SpecError: With the options the spec has errors.
    """
    file, checked = advised.file, advised.checked
    if checked is None:
        raise AdviceError(f"`{file}` is not a spec, so that there is nothing to apply", "name the spec")
    before = untrusted.read_bytes(file)
    document, chosen = yaml.load(file, before), []
    for subject, _, advice, _ in advised.steps:
        if advice.chosen is not None:
            chosen.append((subject, advice.chosen))
            document = _edit(document, checked, subject, advice.chosen)
    after = _plan(document, chosen, checked)
    text = document.text
    if b"\r\n" in before:
        text = "\r\n".join(text.replace("\r\n", "\n").split("\n"))
    data = (_MARK if before.startswith(_MARK) else b"") + text.encode()
    return EditedSpec(Change(str(file), before, data), after.report.diagnostics, after.report.sources)


def write_spec(edited: EditedSpec) -> None:
    """Write an edited spec.

    Raises:
        OutputError: It cannot be written, or has changed. It is as it was.
    """
    change = edited.change
    reason = replace_content(Path(change.path), change.before, change.after)
    if reason is not None:
        help_ = "check the permissions of the file and its folder"
        raise OutputError(f"`{change.path}` cannot be written: {reason}", help_)


def _edit(document: yaml.Document, checked: CheckedSpec, subject: Subject, option: Option) -> yaml.Document:
    spec = checked.planned.spec
    reason = explain_refusal(spec, subject, option)
    if reason is not None:
        raise NotExpressibleError(reason, subject, option, [])
    settings = [Setting(*setting) for setting in list_settings(spec, subject, option)]
    try:
        return yaml.load(document.path, set_values(document, settings))
    except SettingError as error:
        raise NotExpressibleError(str(error), subject, option, settings) from None


def _plan(document: yaml.Document, chosen: list[tuple[Subject, Option]], before: CheckedSpec) -> CheckedSpec:
    """The plan of the edited spec, which must be what was advised, and leave other steps as they were."""
    checked = check_spec(Path(document.path), document)
    subjects, _ = read_steps(checked.planned)
    cases = {subject.name: subject.case for subject in subjects}
    for subject, option in chosen:
        if not is_as_advised(cases.get(subject.name), subject, option):
            raise NotExpressibleError("its plan is another one than was advised", subject, option, [])
    advised = {subject.name for subject, _ in chosen}
    for name, step in before.planned.step_plans.items():
        if name not in advised and checked.planned.step_plans[name].topology != step.topology:
            message = f"step `{name}` would change too; the spec is unchanged"
            raise AdviceError(message, "separate the two steps")
    return checked


def is_as_advised(case: Case | None, subject: Subject, option: Option) -> bool:
    """Whether a step trains, as its ``case`` says, on an option's cluster, with its layout and batches."""
    return (
        case is not None
        and case.training == option.training
        and case.global_batch == subject.case.global_batch
        and case.cluster.instance_type == option.instance_type
        and case.cluster.instance_count == option.cluster.instance_count
        and case.cluster.world_size == option.cluster.world_size
    )
