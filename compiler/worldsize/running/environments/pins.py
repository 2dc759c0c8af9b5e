"""What the environment of a step pins, where this Python has another version: a likely cause of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

from worldsize.azureml.copying import CopyAccess
from worldsize.running.environments.definition import read_definition
from worldsize.running.model.source import Assets
from worldsize.running.model.task import Task

MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class BrokenPin:
    """A package whose installed version the environment excludes."""

    pin: str  # `pandas<1.2,>=1.1`
    installed: str  # `pandas 2.3.3`
    modules: frozenset[str]  # that it is imported by


def explain_pins(task: Task, lines: Sequence[str], assets: Assets) -> str | None:
    """A sentence about the broken pins of a step that runs in the current Python; None if it has none.

    Those that the last lines of its log mention go before all others, which may have nothing to do with it.
    """
    try:
        definition, _ = read_definition(task.component.environment, task.folder, assets, CopyAccess())
    except OSError:  # the step has failed for a reason of its own
        return None
    broken = list(find_broken_pins(definition.requirements))
    text = "\n".join(lines)
    mentioned = [each for each in broken if _mentions(text, each)]
    if not mentioned and definition.modules:  # what a known image contains, which nobody has chosen
        return None
    if not mentioned and _says_why(lines):
        return None
    shown = mentioned or broken
    if not shown:
        return None
    listed = ", ".join(f"`{each.pin}` (this Python has {each.installed})" for each in shown[:MAX_SHOWN])
    more = f" and {len(shown) - MAX_SHOWN} more" if len(shown) > MAX_SHOWN else ""
    return f"its environment pins {listed}{more}: `--environment isolated` installs what it pins"


def _says_why(lines: Sequence[str]) -> bool:
    """Whether a program ends with an error message of its own and no traceback, as built-in components do."""
    return any(line.startswith("error: ") for line in lines) and not any(
        line.startswith("Traceback ") for line in lines
    )


def find_broken_pins(requirements: Sequence[str]) -> Iterator[BrokenPin]:
    """The requirements that the installed version of a package violates; absent packages do not count."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:  # without the extra `run`
        return
    for line in requirements:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:  # an option, a path or an address
            continue
        if not wanted.specifier or (wanted.marker is not None and not wanted.marker.evaluate()):
            continue
        try:
            found = metadata.distribution(wanted.name)
        except metadata.PackageNotFoundError:
            continue
        if not wanted.specifier.contains(found.version, prereleases=True):
            pin = f"{wanted.name}{wanted.specifier}"
            yield BrokenPin(pin, f"{wanted.name} {found.version}", frozenset(_list_modules(found)))


def _list_modules(found: metadata.Distribution) -> Iterator[str]:
    """What a package is imported as: `sklearn` for scikit-learn."""
    yield found.name
    for file in found.files or ():
        name = file.parts[0] if len(file.parts) > 1 else file.stem
        if name.isidentifier() and not name.startswith("_"):
            yield name


def _mentions(text: str, pin: BrokenPin) -> bool:
    names = "|".join(map(re.escape, sorted(pin.modules, key=len, reverse=True)))
    return re.search(rf"(?<![\w-])(?:{names})(?![\w-])", text) is not None
