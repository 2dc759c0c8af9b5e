"""Planning a spec file: read, checked, and every number derived."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.sources import Sources
from worldsize.errors import SpecError
from worldsize.planning.model import Plan

if TYPE_CHECKING:
    from worldsize.emit.build import Built
    from worldsize.emit.memory import Need


@dataclass(frozen=True, slots=True)
class Derived:
    """A plan, and what was found on the way that does not keep the spec from running."""

    plan: Plan
    warnings: tuple[Diagnostic, ...]
    sources: Sources
    built: Built


def plan(spec: str | os.PathLike[str]) -> Plan:
    """Derive every number of a spec.

    Args:
        spec: The spec file.

    Returns:
        The plan: by step its topology, its training, the arithmetic behind each number, and advice.

    Raises:
        SpecError: The spec has errors.
    """
    return derive(spec).plan


def derive(spec: str | os.PathLike[str]) -> Derived:
    """As :func:`plan`, with the warnings.

    Raises:
        SpecError: The spec has errors.
    """
    from worldsize import checking  # noqa: PLC0415 - importing the verb costs nothing until it is used
    from worldsize.azureml.files import Files  # noqa: PLC0415
    from worldsize.emit import build  # noqa: PLC0415
    from worldsize.rules import engine  # noqa: PLC0415
    from worldsize.spec import load  # noqa: PLC0415

    path = Path(spec)
    report = checking.check_spec(path)
    built = None
    with checking.in_budget(path, report.sources):
        loaded, problems, _ = load(path)
        if loaded is not None:
            built, problems = build.build(loaded, Files())
    if built is None or built.plan is None:
        raise SpecError(list(engine.diagnose(problems)), report.sources)
    return Derived(built.plan, report.diagnostics, report.sources, built)


def memory(derived: Derived, *, import_model: bool = False) -> dict[str, Need]:
    """The memory that each training step needs a process, where its model and samples are known.

    Args:
        derived: From :func:`derive`.
        import_model: Run the code of users' own models for their shapes; otherwise such steps are left out.

    Raises:
        ModelImportError: A user's model could not be made.
        SpecError: It takes too long.
    """
    from worldsize.checking import in_budget  # noqa: PLC0415
    from worldsize.emit import imported_model  # noqa: PLC0415
    from worldsize.emit import memory as remembering  # noqa: PLC0415

    built = derived.built
    folder = built.spec.path.parent
    load = partial(imported_model.read, folder) if import_model else None
    with in_budget(built.spec.path, derived.sources):
        return remembering.needs(built.resolved.job, derived.plan, load, folder)


def document(plan: Plan, needs: Mapping[str, Need] | None = None) -> dict[str, Any]:
    """A plan as ``schemas/plan.schema.json`` describes it, ready for JSON; with the memory of its steps."""
    from worldsize.emit.plan_file import FORMAT  # noqa: PLC0415

    steps = {name: to_builtins(step) for name, step in plan.steps.items()}
    for name, need in (needs or {}).items():
        found = need.breakdown
        steps[name]["memory"] = {
            **to_builtins(found),
            "total": found.total,
            "available": need.available,
            "device": need.device,
        }
    return {"format": FORMAT, "name": plan.name, "steps": steps}
