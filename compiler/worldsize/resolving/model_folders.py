"""The folder of a Hugging Face model, ``model: hf:path``, which joins the snapshot of its step."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from worldsize.azureml import snapshot
from worldsize.azureml.copying import read_listed
from worldsize.azureml.references import describe_missing, is_folder, normalise
from worldsize.azureml.snapshot import Snapshot
from worldsize.resolving.state import ResolveState, part_span
from worldsize.spec.model import Located

PREFIX = "hf:"
_CONFIG = "config.json"
_SLUG = "user-model-missing"
_PICKLED = (".bin", ".pt", ".pth")
_WRITE = "write the folder with `save_pretrained`"


def add_folder(state: ResolveState, located: Located[Any], added: Snapshot) -> None:
    """Take in the folder that an input names after ``hf:``; what a trainer would refuse in it is reported."""
    text = str(located.value).removeprefix(PREFIX)
    if not text:
        return  # the model is another input's
    place = PurePosixPath(normalise(Path(text)))
    path = normalise(state.folder / text)
    span = part_span(located, len(PREFIX), len(PREFIX) + len(text))
    if text.startswith("/") or ".." in place.parts:
        message = f"`{text}` is outside the spec's folder, so it cannot keep its place in the snapshot"
        state.report(_SLUG, span, message, "move it below the folder of the spec")
    elif not is_folder(path):
        state.problems.append(describe_missing("the input", text, path, span).under(_SLUG))
    elif state.files.may_judge(path):
        own = Snapshot()
        state.problems += snapshot.add_to_snapshot(own, path, located.span, state.files.gate, str(place))
        fault = _find_fault(own, place, text)
        if fault is not None:
            state.report(_SLUG, span, fault, _WRITE)
        for name, source in own.files.items():
            added.files.setdefault(name, source)


def _find_fault(own: Snapshot, place: PurePosixPath, text: str) -> str | None:
    """What makes a folder no Hugging Face model."""
    config = own.files.get(str(place / _CONFIG))
    names = [PurePosixPath(name) for name in own.files if PurePosixPath(name).parent == place]
    if not isinstance(config, Path):
        return f"`{text}` has no `{_CONFIG}`, so it is not a Hugging Face model"
    if not any(name.suffix == ".safetensors" for name in names):
        pickled = sorted(name.name for name in names if name.suffix in _PICKLED)
        has = f", only `{pickled[0]}`, whose format can run code" if pickled else ""
        return f"`{text}` has no weights as `*.safetensors`{has}"
    try:
        content = json.loads(read_listed(config))
    except (ValueError, RecursionError) as error:
        at = f": line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return f"`{text}/{_CONFIG}` is not JSON{at}"
    except OSError:
        return None  # it went away meanwhile
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        return f"`{text}/{_CONFIG}` names no `model_type`"
    return None
