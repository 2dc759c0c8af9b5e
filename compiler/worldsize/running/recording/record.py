"""What a run was asked for, written beside it before it begins: ``run.json``. No environment is in it."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldsize.azureml.references import kind
from worldsize.running.options import RunOptions
from worldsize.running.preparing.preparation import Prepared
from worldsize.running.recording import disclosure
from worldsize.running.recording.folder import RunFolder
from worldsize.running.recording.history import RECORD
from worldsize.running.reuse.environment import version
from worldsize.running.reuse.files import read, write
from worldsize.secrecy.names import is_secret

VERSION = 1
LONGEST_VALUE = 500


@dataclass(frozen=True, slots=True)
class Asked:
    """What was run, and how."""

    target: Path
    options: RunOptions
    track: bool
    compiled: bool  # from a spec: what ran lies in the run's folder
    withheld: tuple[str, ...] = ()  # of `--set`: secrets, whose values are not kept


def save(place: RunFolder, prepared: Prepared, *, track: bool) -> None:
    """Write it down, with what a reader wants to know of each step.

    Raises:
        OSError: It cannot be written.
    """
    withheld = [
        name
        for name, value in prepared.options.settings.items()
        if is_secret(name) or prepared.mask.text(value) != value
    ]
    document = {
        "version": VERSION,
        "target": str(prepared.target.absolute()),
        "options": _options(prepared.options, withheld),
        "withheld": withheld,
        "track": track,
        "compiled": (place.pipeline / "pipeline.yml").exists(),
        "cwd": str(Path.cwd()),
        "worldsize": version("worldsize"),
        "python": sys.version.split()[0],
        "steps": {
            name: {
                "needs": sorted(task.needs),
                "parameters": disclosure.parameters(task.inputs, LONGEST_VALUE, prepared.mask),
            }
            for name, task in prepared.tasks.items()
        },
    }
    write(place.root / RECORD, document)


def load(place: RunFolder) -> Asked | None:
    """Read it; None where there is none, or where it is damaged or of another version."""
    document = read(place.root / RECORD)
    if document is None or document.get("version") != VERSION:
        return None
    known = {each.name for each in dataclasses.fields(RunOptions)}
    try:
        given = {name: value for name, value in document["options"].items() if name in known}
        options = _given(
            **{name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
        )
        target = Path(document["target"])
        withheld = tuple(map(str, document.get("withheld", ())))
        return Asked(target, options, bool(document["track"]), bool(document["compiled"]), withheld)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _given(**options: Any) -> RunOptions:
    return RunOptions(**options)


def _options(options: RunOptions, withheld: Collection[str]) -> dict[str, Any]:
    """As JSON, without secrets; paths no longer depend on the working folder."""
    found = {each.name: getattr(options, each.name) for each in dataclasses.fields(options)}
    found["settings"] = {name: text for name, text in options.settings.items() if name not in withheld}
    found["assets"] = {
        name: os.path.abspath(path) if kind(path) == "local" else path  # noqa: PTH100 - no link is followed
        for name, path in options.assets.items()
    }
    return found
