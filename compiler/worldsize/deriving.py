"""Planning a spec file: read, checked, and every number derived."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.sources import Sources
from worldsize.errors import SpecError
from worldsize.planning.model import Plan


@dataclass(frozen=True, slots=True)
class Derived:
    """A plan, and what was found on the way that does not keep the spec from running."""

    plan: Plan
    warnings: tuple[Diagnostic, ...]
    sources: Sources


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
    report = checking.check([path])
    if report.errors:
        raise SpecError(report.diagnostics, report.sources)
    loaded, problems, _ = load(path)
    built = None
    if loaded is not None:
        built, problems = build.build(loaded, Files())
    if built is None or built.plan is None:
        raise SpecError(list(engine.diagnose(problems)), report.sources)
    return Derived(built.plan, report.diagnostics, report.sources)


def document(plan: Plan) -> dict[str, Any]:
    """A plan as ``schemas/plan.schema.json`` describes it, ready for JSON."""
    from worldsize.emit.plan_file import FORMAT  # noqa: PLC0415

    return {
        "format": FORMAT,
        "name": plan.name,
        "steps": {name: asdict(step) for name, step in plan.steps.items()},
    }
