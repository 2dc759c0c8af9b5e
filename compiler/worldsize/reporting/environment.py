"""What a run was started with: its command, options, versions, commit and seeds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from worldsize.documents.secrecy.masking import HIDDEN
from worldsize.running.model.folder import HOME, show_path
from worldsize.running.record.history import RunRecord

_COMMIT, _BRANCH, _DIRTY = "mlflow.source.git.commit", "mlflow.source.git.branch", "azureml.git.dirty"
_REPEATED = {"settings": "--set", "assets": "--map", "kill": "--kill", "drop_link": "--drop-link"}


def describe_environment(
    record: RunRecord, request: Mapping[str, Any], tags: Mapping[str, str]
) -> list[tuple[str, str]]:
    """The rows of the table: what is unknown is left out.

    Args:
        record: The run.
        request: Its ``run.json``, which holds no secret.
        tags: Of its record in MLflow.
    """
    rows = [
        ("command", _make_command(record, request)),
        ("working folder", _text(request.get("cwd"))),
        ("commit", _describe_commit(tags)),
        ("user", tags.get("mlflow.user", "")),
        ("seeds", ", ".join(_find_seeds(record))),
        ("worldsize", _text(request.get("worldsize"))),
        ("Python", _text(request.get("python"))),
        ("MLflow", "not tracked" if request.get("track") is False else ""),
    ]
    return [(name, text) for name, text in rows if text]


def _make_command(record: RunRecord, request: Mapping[str, Any]) -> str:
    if not request.get("target"):
        return ""
    words = ["worldsize", "run", _text(request.get("reference")) or show_path(Path(_text(request["target"])))]
    options = request.get("options")
    for name, value in options.items() if isinstance(options, Mapping) else ():
        words += _make_option(str(name), value, request)
    home = show_path(record.root.parent.parent)
    words += ["--runs-dir", home] if home != HOME else []
    words += ["--no-track"] if request.get("track") is False else []
    return shlex.join(words)


def _make_option(name: str, value: Any, request: Mapping[str, Any]) -> Iterator[str]:
    if name in _REPEATED:
        pairs = value.items() if isinstance(value, Mapping) else ()
        values = [f"{key}={each}" for key, each in pairs] or (value if isinstance(value, list) else [])
        withheld = request.get("withheld")
        hidden = withheld if name == "settings" and isinstance(withheld, list) else []
        for each in [*values, *(f"{key}={HIDDEN}" for key in hidden)]:
            yield from (_REPEATED[name], str(each))
    elif value is True:
        yield f"--{name.replace('_', '-')}"
    elif value not in (None, False, "processes") or (name == "processes" and value):
        yield from (f"--{name.replace('_', '-')}", str(value))


def _describe_commit(tags: Mapping[str, str]) -> str:
    commit, branch = tags.get(_COMMIT, ""), tags.get(_BRANCH, "")
    if not commit:
        return ""
    changed = ", with changes that are not committed" if tags.get(_DIRTY) == "True" else ""
    return f"{commit} on {branch}{changed}" if branch else f"{commit}{changed}"


def _find_seeds(record: RunRecord) -> Iterator[str]:
    for step in record.steps.values():
        for name, value in step.parameters.items():
            if name == "seed" or name.endswith(("_seed", "-seed")):
                yield f"{step.name}.{name} {value}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
