"""Reads `MLmodel`, the description of an MLflow model, from a folder of unknown origin."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

from wsshards.errors import UserError, describe_error
from wsshards.regular_files import check_regular, list_files, read_regular

MLMODEL_NAME = "MLmodel"
MAX_MLMODEL_BYTES = 1 << 20  # bytes: a signature of 10,000 columns takes half of it
MAX_MODEL_FILES = 100_000
_LEVELS = 100
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_mlmodel(model: str) -> dict[str, Any]:
    """Return the content of a model's MLmodel file, after a check that the folder holds regular files only.

    MLflow opens all files there, and would wait forever for a named pipe.

    Raises:
        UserError: the folder is not an MLflow model.
    """
    check_model_files(model)
    try:
        text = read_regular(Path(model) / MLMODEL_NAME, MAX_MLMODEL_BYTES).decode("utf-8")
        if _is_deep(text):
            raise _no_model(model, "is nested too deeply")
        card = yaml.load(text, Loader=_LOADER)  # noqa: S506 - either is a safe one
    except FileNotFoundError:
        raise _no_model(model, None) from None
    except OSError as error:
        raise _no_model(model, f"cannot be read: {describe_error(error)}") from None
    except (ValueError, yaml.YAMLError, RecursionError):
        raise _no_model(model, "is not YAML") from None
    if not isinstance(card, dict):
        raise _no_model(model, "is not a mapping")
    if _is_endless(card):
        raise _no_model(model, "says more by its anchors than any model does")
    return card


def digest_model(model: str) -> str:
    """Return the SHA-256 of the MLmodel file, which has the model's UUID and when it was saved."""
    return hashlib.sha256((Path(model) / MLMODEL_NAME).read_bytes()).hexdigest()


def check_model_files(folder: str) -> None:
    """Refuse a folder that holds anything but regular files.

    Raises:
        UserError: naming what it is.
    """
    place = ""
    try:
        for place in list_files(folder, MAX_MODEL_FILES, hidden=True):
            check_regular(Path(folder) / place)
    except NotADirectoryError:
        raise UserError(f"`{folder}` is not a folder", "bind the folder of an MLflow model") from None
    except OSError as error:
        name = f"{folder}/{place}" if place else folder
        raise UserError(
            f"cannot read the model `{name}`: {describe_error(error)}", "save it with mlflow's save_model"
        ) from None


def _is_deep(text: str) -> bool:
    """Whether brackets or indents nest so deeply that a parser might not come back."""
    level = 0
    for character in text:
        level += (character in "[{") - (character in "]}")
        if level > _LEVELS:
            return True
    return any(len(line) - len(line.lstrip(" -?")) > 4 * _LEVELS for line in text.splitlines())


def _is_endless(card: object) -> bool:
    """Whether anchors make a card that is larger than its text, or holds itself."""
    waiting = [card]
    for _ in range(MAX_MLMODEL_BYTES):
        if not waiting:
            return False
        node = waiting.pop()
        if isinstance(node, dict | list):
            waiting += node.values() if isinstance(node, dict) else node
            if len(waiting) > MAX_MLMODEL_BYTES:
                return True
    return True


def _no_model(model: str, fault: str | None) -> UserError:
    reason = f", which {fault}" if fault else ""
    return UserError(
        f"`{model}` is not an MLflow model: it has no readable `{MLMODEL_NAME}`{reason}",
        "save it with mlflow's save_model",
    )
