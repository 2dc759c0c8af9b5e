"""Classifies references: a local file, or an asset in a workspace, in a registry or on the web."""

from __future__ import annotations

# Paths are texts here: a Path object for each question is slow in big trees.
# ruff: noqa: PTH110, PTH112, PTH113, PTH117, PTH118, PTH120, PTH208
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from worldsize.base import untrusted
from worldsize.base.problem import Finding
from worldsize.base.wording import shorten

if TYPE_CHECKING:
    from worldsize.base.span import Span
    from worldsize.documents.yaml.nodes import Node

_LONGEST_NAME, _LONGEST_PATH = 255, 3000  # bytes; the operating system raises for longer ones
_LEVELS = 5  # of folders above a file, in which its paths are looked for
Kind = Literal["local", "asset", "web", "git"]

_OF_WINDOWS = re.compile(r"(?:file:)?[A-Za-z]:[\\/]")  # on another machine, so unknown here
_WEB = re.compile(r"(?:https?|wasbs?|abfss?|adl|s3|runs|models):", re.IGNORECASE)


# The service resolves labels of its own environments itself.
_LABELLED = re.compile(r"azureml:(?!AzureML-)(?P<name>[\w.-]+)@(?!latest$)(?P<label>[\w.-]+)")


def classify(text: str) -> Kind:
    """Classify what ``component:``, ``code:``, ``environment:`` or a data ``path:`` refers to.

    ``asset`` covers every ``azureml:`` form and bare resource ids; ``local`` whatever is left.
    """
    if text.startswith(("azureml:", "/subscriptions/")):
        return "asset"
    if text.startswith("git+"):
        return "git"
    return "web" if _WEB.match(text) else "local"


def report_unknown_label(text: str, span: Span) -> Finding | None:
    """Report a label of data, an environment or a model other than ``latest``, which azure-ai-ml refuses."""
    match = _LABELLED.fullmatch(text)
    if match is None:
        return None
    message = f"`@{match['label']}` is not a label: azure-ai-ml resolves only `@latest`"
    written = f"azureml:{match['name']}"
    return Finding(span, message, f"write `{written}@latest`, or `{written}:1` with the version you mean")


def local_path(text: str, folder: Path) -> Path | None:
    """The path of a local reference, relative ones against ``folder``; None for anything else."""
    if classify(text) != "local" or "${{" in text or "\0" in text or _OF_WINDOWS.match(text):
        return None
    name = text.removeprefix("file:")
    if len(name) > 60 and not _can_exist(name):
        name = f"{name[:60].replace('/', '_')}…"  # so it is reported as missing
    if os.path.isabs(name):
        return _path_of(name)
    return _path_of(os.path.normpath(os.path.join(folder, name)))


def _can_exist(name: str) -> bool:
    data = name.encode("utf-8", "replace")
    return len(data) <= _LONGEST_PATH and all(len(part) <= _LONGEST_NAME for part in data.split(b"/"))


def exists(path: Path) -> bool:
    """Whether a path exists; unlike pathlib's, False for a path without permission."""
    return os.path.exists(path)


def is_file(path: Path) -> bool:
    """Whether a path is a file that can be accessed."""
    return os.path.isfile(path)


def is_folder(path: Path) -> bool:
    """Whether a path is a folder that can be accessed."""
    return os.path.isdir(path)


def list_names(folder: Path) -> list[str]:
    """The sorted names in a folder, for a suggestion; empty if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def closest_path(text: str, path: Path, named_in: str) -> str | None:
    """The existing path, beside or above a missing ``path``, that is most similar to ``text``; or None.

    It is of the same kind: a file with the same suffix, or a folder for a name without one. The
    file ``named_in`` cannot mean itself.
    """
    from worldsize.base.suggest import closest  # only a fault pays for it

    names = [
        name
        for name in list_names(path.parent)
        if _same_kind(path, path.parent / name) and path.parent / name != Path(named_in)
    ]
    near = closest(path.name, names)
    if near is not None:
        return text[: text.rstrip("/").rfind("/") + 1] + near
    return None if text.startswith("/") else find_above(text, Path(named_in).parent)


def find_above(text: str, folder: Path) -> str | None:
    """How a file of ``folder`` writes a path that is relative to another folder; None if it does not exist.

    It is often written from the root of the repository, or with one `..` too few or too many. Above the
    folder that the user names nothing is looked at.
    """
    parts = [part for part in text.removeprefix("file:").split("/") if part not in ("", ".", "..")]
    above = folder
    for level in range(_LEVELS + 1) if parts else ():
        if exists(above.joinpath(*parts)):
            return "/".join([*[".."] * level, *parts])
        if above.parent == above or ".." in above.parts:
            break
        above = above.parent
    return None


def _same_kind(path: Path, on_disk: Path) -> bool:
    if not path.suffix:
        return not on_disk.suffix or is_folder(on_disk)
    wanted, suffix = path.suffix.lower(), on_disk.suffix.lower()
    mistyped = len(suffix) > 3 and sorted(suffix) == sorted(wanted)  # `.cvs`
    return (suffix == wanted or mistyped or {suffix, wanted} == {".yml", ".yaml"}) and not is_folder(on_disk)


_path_of = lru_cache(4096)(Path)  # rules ask for the same few paths again and again


def normalise(path: Path) -> Path:
    """A path without ``a/..``; a relative path stays relative, as messages show it."""
    return Path(os.path.normpath(path))


def folder_of(node: Node) -> Path:
    """The folder of the file in which a node stands, which the node's paths are relative to."""
    return _path_of(os.path.dirname(node.source.path))


def describe_missing(what: str, text: str, path: Path, span: Span) -> Finding:
    """Describe a missing file or folder, with the most similar path of its kind that exists."""
    if "\n" in text.strip():
        message = f"{what} is a text of several lines, and Azure ML takes a text as the name of a file"
        return Finding(span, message, "remove the `|` or `>` after the key, so that its content is a mapping")
    fault = untrusted.find_fault(path, folder=True)
    if fault is not None:
        return Finding(span, f"{what} names `{shorten(text)}`, but {fault}", "name a file or a folder")
    message = f"{what} names `{shorten(text)}`, which does not exist"
    near = closest_path(text, path, span.path)
    if near is not None:
        return Finding(span, message, f"did you mean `{shorten(near)}`?")
    help_ = "correct the path, which is relative to this file, or add it"
    if str(path) != os.path.normpath(text):
        help_ = f"there is no `{shorten(str(path))}`: {help_}"
    return Finding(span, message, help_)


def names_built_in(uses: str) -> bool:
    """Whether ``uses:`` is a bare name rather than a path or an asset."""
    return classify(uses) == "local" and "/" not in uses and not uses.endswith((".yml", ".yaml"))
