"""The files that a resolved spec becomes, all in memory: nothing is written here."""

from __future__ import annotations

import hashlib
import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import write
from worldsize.azureml.archive import Archive
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.model import Argument, Data, Field, Literal, Step
from worldsize.azureml.references import local_path
from worldsize.base import budget
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.emit import bundle as bundles
from worldsize.emit import deepspeed, memory, plan_file, settings
from worldsize.emit.build import Built
from worldsize.emit.bundle import Bundle
from worldsize.emit.memory_bound import PREDICTION
from worldsize.spec.model import ComputeProfile, Spec

Files = dict[str, Path | bytes | Archive]


class _Shelf(Struct):
    """The component folders chosen so far: equal components share one."""

    gate: CopyAccess
    folders: dict[str, str] = field(default_factory=dict)  # digest -> folder name
    taken: set[str] = field(default_factory=set)
    files: Files = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def files(built: Built, out: Path, gate: CopyAccess) -> tuple[Files, list[Problem]]:
    """Everything that compiling writes, by path inside the output folder.

    Args:
        built: A spec that was resolved without errors.
        out: The output folder; only local data paths depend on it, being relative to it.
        gate: What may be copied.

    Returns:
        The files, each as bytes or as the file to copy, sorted; and the problems met.
    """
    assert built.plan is not None
    spec, shelf = built.spec, _Shelf(gate)
    foreseen = memory.needs(built.resolved.job, built.plan, folder=built.spec.path.parent)
    steps = {
        name: _placed(built, _with_memory(step, foreseen.get(name)), shelf, out)
        for name, step in built.resolved.job.steps.items()
    }
    found: Files = dict(shelf.files)
    header = f"Compiled by worldsize from {spec.path.name}: change that file, not this one."
    found["pipeline.yml"] = write.dump(replace(built.resolved.job, steps=steps), header=header).encode()
    if spec.schedule is not None:
        found["schedule.yml"] = _schedule(spec).encode()
    found.update(_clusters(built))
    for name, step in built.resolved.job.steps.items():
        config = deepspeed.config(step, built.plan.steps[name])
        if config is not None:
            found[f"deepspeed/{name}.json"] = config.encode()
    plan = plan_file.dump(built.plan, built.resolved.templates, list(found))
    found[plan_file.NAME] = plan.encode("utf-8", "surrogateescape")  # names of files may be no text
    return {name: found[name] for name in sorted(found)}, shelf.problems


def _placed(built: Built, step: Step, shelf: _Shelf, out: Path) -> Step:
    """The step, referring to its component's folder and with data paths that hold from the output."""
    budget.check_time()
    folder = built.spec.path.parent
    inputs = {name: _relative(argument, folder, out) for name, argument in step.inputs.items()}
    if step.component is None:
        return replace(step, inputs=inputs)
    base = step.component.path.parent if step.component.path else folder
    added = built.resolved.added.get(step.name)
    bundle = bundles.of(step.component, base, step.span or built.spec.span, shelf.gate, added)
    variant = step.name if added and added.files else None
    name = _shelve(shelf, bundle, step.name, variant, step.span or built.spec.span)
    reference = Field(f"./components/{name}/{bundles.FILE}")
    return replace(step, inputs=inputs, reference=reference)


def _with_memory(step: Step, need: memory.Need | None) -> Step:
    """The step, told the memory that its processes are foreseen to take, to measure theirs beside it."""
    if need is None or step.component is None or PREDICTION not in step.component.inputs:
        return step
    said = Field[Argument](
        Literal(need.breakdown.total), comment="bytes a process, see worldsize plan --memory"
    )
    return replace(step, inputs={**step.inputs, PREDICTION: step.inputs.get(PREDICTION, said)})


def _shelve(shelf: _Shelf, bundle: Bundle, step: str, variant: str | None, at: Span) -> str:
    """Give a bundle a folder, its inner components first, and say which."""
    shelf.problems += bundle.problems
    for inner_step, component in bundle.inner.items():
        assert component.path is not None
        inner = bundles.of(component, component.path.parent, at, shelf.gate)
        name = _shelve(shelf, inner, inner_step, None, at)
        key = "trial" if "trial" in bundle.document["jobs"][inner_step] else "component"
        bundle.document["jobs"][inner_step][key] = f"../{name}/{bundles.FILE}"
    text = bundles.text(bundle).encode()
    digest = _digest({**bundle.files, bundles.FILE: text})
    known = shelf.folders.get(digest)
    if known is not None:
        return known
    name = f"{bundle.name}__{variant}" if variant else bundle.name
    if name in shelf.taken:
        name = f"{bundle.name}__{step}"
    number = 2
    while name in shelf.taken:
        name, number = f"{bundle.name}__{step}_{number}", number + 1
    shelf.folders[digest] = name
    shelf.taken.add(name)
    shelf.files[f"components/{name}/{bundles.FILE}"] = text
    shelf.files.update({f"components/{name}/{path}": source for path, source in bundle.files.items()})
    return name


def _digest(contents: Mapping[str, Path | bytes | Archive]) -> str:
    """Equal for equal folders. A file to copy is known by its path: reading it would double the work."""
    total = hashlib.sha256()
    for name in sorted(contents):
        source = contents[name]
        total.update(os.fsencode(name) + b"\0")
        known = source.identity() if isinstance(source, Archive) else source
        total.update(known if isinstance(known, bytes) else os.fsencode(known))
        total.update(b"\0")
    return total.hexdigest()


def _relative(argument: Field[Argument], folder: Path, out: Path) -> Field[Argument]:
    """A local data path, given relative to the spec, as one relative to the output folder."""
    value = argument.value
    if not isinstance(value, Data) or value.path is None or not isinstance(value.path.value, str):
        return argument
    path = local_path(value.path.value, folder)
    if path is None:
        return argument
    from_out = Path(os.path.relpath(path.resolve(), out.resolve())).as_posix()
    text = from_out if from_out.startswith("../") else f"./{from_out}"
    return replace(argument, value=replace(value, path=replace(value.path, value=text)))


def _schedule(spec: Spec) -> str:
    schedule = spec.schedule
    assert schedule is not None
    if schedule.cron is not None:
        trigger: dict[str, Any] = {"type": "cron", "expression": schedule.cron.value}
    else:
        trigger = {"type": "recurrence", **(schedule.recurrence.value if schedule.recurrence else {})}
    for key in ("start_time", "end_time", "time_zone"):
        located = getattr(schedule, key)
        if located is not None:
            trigger[key] = located.value
    return write.schedule(
        schedule.name.value if schedule.name else f"{spec.name.value}_schedule",
        trigger,
        "./pipeline.yml",
        display_name=spec.display_name.value if spec.display_name else None,
        force_rerun=True,
    )


def _clusters(built: Built) -> Files:
    """One file a cluster; profiles of the same cluster agree in what they say of it."""
    together: dict[str, list[ComputeProfile]] = {}
    for profile in built.spec.compute.values():
        together.setdefault(settings.cluster_of(profile), []).append(profile)
    sized = {name: group for name, group in together.items() if _said(group, "instance_type")}
    return {f"compute/{name}.yml": _cluster(built, name, group).encode() for name, group in sized.items()}


def _cluster(built: Built, name: str, profiles: list[ComputeProfile]) -> str:
    assert built.plan is not None
    names = {profile.name for profile in profiles}
    users = [
        built.plan.steps[step.name].topology.instance_count
        for step in built.spec.steps.values()
        if step.compute and step.compute.value in names and step.name in built.plan.steps
    ]
    return write.compute(
        name,
        _said(profiles, "instance_type"),
        tier=_said(profiles, "tier") or "dedicated",
        min_instances=_said(profiles, "min_instances") or 0,
        max_instances=_said(profiles, "max_instances") or max(users, default=1),
        idle_time_before_scale_down=_said(profiles, "idle_time_before_scale_down"),
    )


def _said(profiles: list[ComputeProfile], key: str) -> Any:
    """What the first of the profiles that says anything says."""
    values = (getattr(profile, key) for profile in profiles)
    return next((located.value for located in values if located is not None), None)
