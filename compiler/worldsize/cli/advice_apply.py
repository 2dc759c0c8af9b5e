"""`worldsize advise --apply`: edits the spec, plans the result, shows the diff and writes the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from worldsize import api
from worldsize.base import untrusted
from worldsize.cli import advice_table, common
from worldsize.documents import yaml
from worldsize.documents.errors import SpecError
from worldsize.fixing import unified_diff
from worldsize.fixing.apply import Change, replace_content
from worldsize.fixing.settings import Setting, SettingError, set_values
from worldsize.planning.advising.model import Advice, Option, Subject
from worldsize.planning.model import Plan
from worldsize.resolving.advice_settings import explain_refusal, list_settings

if TYPE_CHECKING:
    from worldsize.api import Planned
    from worldsize.cli.advice_question import Asked

_MARK = "\ufeff".encode()


def apply_advice(file: Path, asked: Asked, advised: Sequence[tuple[Subject, Advice]]) -> None:
    """Put the chosen options into the spec that was asked about.

    Exits, with the file as it was, if an option cannot be expressed in it.
    """
    planned = asked.read.planned
    assert planned is not None
    before = untrusted.read_bytes(file)
    document, chosen = yaml.load(file, before), []
    for subject, advice in advised:
        if advice.chosen is not None:
            chosen.append((subject, advice.chosen))
            document = _edit(document, planned, subject, advice.chosen)
    after = _plan(document, chosen, planned)
    text = document.text
    if b"\r\n" in before:
        text = "\r\n".join(text.replace("\r\n", "\n").split("\n"))
    data = (_MARK if before.startswith(_MARK) else b"") + text.encode()
    if after.warnings:
        common.show_findings(after.warnings, after.sources)
    if data == before:
        common.say("\nthe spec says this already")
        return
    common.say("\n" + unified_diff(Change(str(file), before, data)), nl=False)
    reason = replace_content(file, before, data)
    if reason is not None:
        common.refuse(
            f"`{file}` cannot be written: {reason}", "check the permissions of the file and its folder"
        )


def _edit(document: yaml.Document, planned: Planned, subject: Subject, option: Option) -> yaml.Document:
    spec = planned.resolved.spec
    reason = explain_refusal(spec, subject, option)
    if reason is not None:
        _refuse(reason, subject, option, [])
    settings = [Setting(*each) for each in list_settings(spec, subject, option)]
    try:
        return yaml.load(document.path, set_values(document, settings))
    except SettingError as error:
        _refuse(str(error), subject, option, settings)


def _plan(document: yaml.Document, chosen: list[tuple[Subject, Option]], before: Planned) -> Planned:
    """The plan of the edited spec, which must be what was advised, and leave other steps as they were."""
    try:
        planned = api.plan_spec(document.path, document)
    except SpecError as error:
        common.say("error: with the option the spec has errors; it is unchanged", err=True)
        common.refuse_spec(error)
    for subject, option in chosen:
        if not is_as_advised(planned.plan, subject, option):
            _refuse("its plan is another one than was advised", subject, option, [])
    advised = {subject.name for subject, _ in chosen}
    for name, step in before.plan.steps.items():
        if name not in advised and planned.plan.steps[name].topology != step.topology:
            common.refuse(f"step `{name}` would change too; the spec is unchanged", "separate the two steps")
    return planned


def is_as_advised(plan: Plan, subject: Subject, option: Option) -> bool:
    """Whether a plan has the cluster, the degrees and the batches of an option."""
    step, training, cluster = plan.steps[subject.name], option.training, option.cluster
    topology, planned = step.topology, step.training
    if planned is None:
        return False
    have = (
        (topology.instance_type, topology.instance_count, topology.world_size),
        (topology.tensor_parallel_size, topology.pipeline_parallel_size),
        (planned.batch_size_per_device, planned.gradient_accumulation_steps, planned.global_batch_size),
    )
    return have == (
        (option.instance_type, cluster.instance_count, cluster.world_size),
        (training.tensor_parallel, training.pipeline_parallel),
        (training.micro_batch, training.accumulation, subject.case.global_batch),
    )


def _refuse(reason: str, subject: Subject, option: Option, settings: Sequence[Setting]) -> NoReturn:
    """Exit, and say what to write by hand."""
    wanted = ", ".join(f"`{setting.shown()}`" for setting in settings)
    if not wanted:
        layout = advice_table.describe_layout(option.training)
        wanted = f"{advice_table.show_instances(option)}, tier {option.tier}, {layout}"
    message = f"the option cannot be written into step `{subject.name}`: {reason}"
    common.refuse(message, f"the spec is unchanged; write by hand: {wanted}")
