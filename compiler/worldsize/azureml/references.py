"""What a text refers to: a file here, or an asset that lives in a workspace, a registry or on the web."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

Kind = Literal["local", "asset", "web", "git"]

_WEB = re.compile(r"(?:https?|wasbs?|abfss?|adl|s3|runs|models):", re.IGNORECASE)


def kind(text: str) -> Kind:
    """Where ``component:``, ``code:``, ``environment:`` or a data ``path:`` points to.

    ``asset`` covers every ``azureml:`` form and bare resource ids; ``local`` whatever is left.
    """
    if text.startswith(("azureml:", "/subscriptions/")):
        return "asset"
    if text.startswith("git+"):
        return "git"
    return "web" if _WEB.match(text) else "local"


def local_path(text: str, folder: Path) -> Path | None:
    """The path of a local reference, relative ones against ``folder``; None for anything else."""
    if kind(text) != "local" or "${{" in text or "\0" in text:
        return None
    name = text.removeprefix("file:")
    return Path(name) if Path(name).is_absolute() else normal(folder / name)


def normal(path: Path) -> Path:
    """A path without ``a/..``, still relative where it was: what messages show."""
    import os.path  # noqa: PLC0415 - pathlib has no lexical normalisation

    return Path(os.path.normpath(path))
