"""From a file to the typed spec, with every fault on the way as a problem at its place."""

from __future__ import annotations

from pathlib import Path

from worldsize import yaml
from worldsize.base.problem import Problem
from worldsize.spec import parse, load as references, schedule, violations
from worldsize.spec.model import Spec


def load(path: str | Path, text: str | None = None) -> tuple[Spec | None, list[Problem], yaml.Document]:
    """Read a spec file.

    Args:
        path: The spec.
        text: What counts instead of its content on the disk.

    Returns:
        The spec, or None where it cannot be planned (the YAML is broken, the schema is, or a step
        runs on a profile that does not exist); the problems in file order; and the document, whose
        own YAML problems are among them.
    """
    document = yaml.load(Path(path), text)
    spec, problems = from_document(document, Path(path))
    return spec, problems, document


def from_document(document: yaml.Document, path: Path) -> tuple[Spec | None, list[Problem]]:
    """As :func:`load`, for a document that is already read."""
    root = document.root
    if root is None:
        return None, list(document.problems)
    found = violations.check_schema(root)
    if found or not isinstance(root, yaml.Mapping):
        return None, _sort_problems([*document.problems, *found])
    spec = references.assign_only_profile(parse.parse_spec(path, root))
    broken = list(references.check_references(spec))
    timing = list(schedule.check_schedule(spec.schedule)) if spec.schedule else []
    return None if broken else spec, _sort_problems([*document.problems, *broken, *timing])


def is_spec(document: yaml.Document) -> bool:
    """Whether a YAML file means to be a spec: it has ``steps``, and no ``jobs`` of a native pipeline."""
    root = document.root
    return isinstance(root, yaml.Mapping) and "steps" in root and "jobs" not in root


def _sort_problems(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.span, problem.slug, problem.message))
