"""The request of a run, ``run.json``, written to its folder before it starts. It contains no environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from worldsize.azureml.references import classify
from worldsize.documents.secrecy.names import is_secret
from worldsize.running.environments.layers import installed_version
from worldsize.running.launch.redaction import redact_parameters
from worldsize.running.model.errors import ResumeError
from worldsize.running.model.folder import RunFolder, read_reference
from worldsize.running.model.options import RunOptions
from worldsize.running.model.source import read_default
from worldsize.running.model.task import Task
from worldsize.running.prepare.preparation import Prepared
from worldsize.running.record.history import RECORD
from worldsize.running.record.json_files import read_json, write_json

VERSION = 1
LONGEST_VALUE = 500


class RunRequest(Struct, frozen=True):
    """The target and the options of a run."""

    target: Path
    options: RunOptions
    track: bool
    compiled: bool  # from a spec; the compiled pipeline is in the run's folder
    withheld: tuple[str, ...] = ()  # of `--set`: secrets, whose values are not stored


def save_request(folder: RunFolder, prepared: Prepared, *, track: bool) -> None:
    """Write the request, with the needs and parameters of each step."""
    withheld = [
        name
        for name, value in prepared.options.settings.items()
        if is_secret(name) or prepared.mask.text(value) != value
    ]
    document = {
        "version": VERSION,
        "target": str(prepared.target.absolute()),
        "reference": read_reference(prepared.target),
        "title": prepared.mask.text(prepared.title),
        "options": _describe_options(prepared.options, withheld),
        "withheld": withheld,
        "track": track,
        "compiled": (folder.pipeline / "pipeline.yml").exists(),
        "cwd": str(Path.cwd()),
        "worldsize": installed_version("worldsize"),
        "python": sys.version.split()[0],
        "steps": {
            name: {
                "needs": sorted(task.needs),
                "parameters": redact_parameters(task.inputs, LONGEST_VALUE, prepared.mask),
                "defaults": _find_defaults(task),
            }
            for name, task in prepared.tasks.items()
        },
    }
    write_json(folder.root / RECORD, document, flush=True)


def _find_defaults(task: Task) -> list[str]:
    """The parameters of a step that have the default of its component."""
    ports = task.component.inputs.items()
    declared = {name: read_default(port) for name, port in ports if port.default is not None}
    return sorted(name for name, text in declared.items() if task.inputs.get(name) == text)


def load_request(folder: RunFolder) -> RunRequest:
    """Read the request of a run.

    Raises:
        ResumeError: There is none, or it is damaged or of a newer version.
    """
    path, name = folder.root / RECORD, f"run `{folder.id}`"
    document = read_json(path)
    again = "run the pipeline again"
    if document is None and not path.exists():
        raise ResumeError(
            f"{name} has no record of what it ran", f"it stopped before its first step: {again}"
        )
    written = document.get("version") if document is not None else None
    if isinstance(written, int) and written > VERSION:
        message = f"{name} was made by a newer Worldsize, {document.get('worldsize')}" if document else name
        raise ResumeError(message, "resume it with that version, or a newer one")
    request = _parse_request(document) if document is not None and written == VERSION else None
    if request is None:
        raise ResumeError(f"`{RECORD}` of {name} is damaged, so what it ran is not known", again)
    return request


def _parse_request(document: Mapping[str, Any]) -> RunRequest | None:
    """Parse a request; None if it is damaged."""
    try:
        options = msgspec.convert(document["options"], RunOptions)
        withheld = tuple(map(str, document.get("withheld", ())))
        return RunRequest(
            Path(document["target"]), options, bool(document["track"]), bool(document["compiled"]), withheld
        )
    except (KeyError, TypeError, ValueError):
        return None


def _describe_options(options: RunOptions, withheld: Collection[str]) -> dict[str, Any]:
    """The options as JSON, without secrets, and with absolute paths."""
    values = structs.asdict(options)
    values["settings"] = {name: text for name, text in options.settings.items() if name not in withheld}
    values["assets"] = {
        name: os.path.abspath(path) if classify(path) == "local" else path  # noqa: PTH100 - no link is followed
        for name, path in options.assets.items()
    }
    return values
