"""What compiling and running may copy: files of the project, unless ``worldsize.yml`` allows others.

A file that is copied is uploaded with the pipeline, so a spec from elsewhere must not be able to name a home
folder, and no link in its code may lead there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from worldsize.azureml.copying import Archive, CopyAccess, allow_everything
from worldsize.azureml.files import Files
from worldsize.azureml.snapshot import report_outside_project
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import discover
from worldsize.documents.diagnostics.diagnostic import Diagnostic

if TYPE_CHECKING:
    from worldsize.documents.yaml import Document

Allowed = Callable[[str | os.PathLike[str]], bool]
_OUTSIDE = ("code-outside-tree", "reference-outside")  # warnings where nothing is copied
_MAX_LISTED = 5  # files that are listed by name


def find_allowed(path: str | os.PathLike[str], read: Mapping[Path, Document] | None = None) -> Allowed | None:
    """What may be copied for a file: its checkout, and what its ``worldsize.yml`` allows in addition.

    The function that is returned resolves links. It is None if neither a checkout nor a ``worldsize.yml``
    says where the project ends. ``read`` holds documents that are parsed already, by resolved path.
    """
    tree = discover.find_project(path)
    if tree is None:
        return None
    folder = os.path.realpath(path)
    settings_file = discover.find_settings(
        folder if Path(folder).is_dir() else str(Path(folder).parent), tree
    )
    return Tree(Path(tree), _allowed(settings_file, read or {})).readable


def _allowed(settings_file: str | None, read: Mapping[Path, Document]) -> tuple[Path, ...]:
    if settings_file is None:
        return ()
    from worldsize.checking import settings
    from worldsize.documents import yaml  # few projects have settings

    document = read.get(Path(os.path.realpath(settings_file)))
    return settings.read_settings(document or yaml.load(settings_file)).allow


def make_files(
    path: str | os.PathLike[str],
    mapped: Iterable[Path] = (),
    ours: Iterable[Path] = (),
    read: Mapping[Path, Document] | None = None,
) -> Files:
    """What compiling or running a file may read and copy.

    ``mapped`` are local paths of assets, each allowed with the project around it; ``ours`` are folders of
    Worldsize itself; ``read`` is as for :func:`find_allowed`.
    """
    allowed = [
        find_allowed(path, read) or allow_everything,
        *(find_allowed(path, read) or _allow_below(path) for path in mapped),
        *map(_allow_below, ours),
    ]

    def judge(file: str | os.PathLike[str]) -> bool:
        return any(allows(file) for allows in allowed)

    return Files(readable=judge, gate=CopyAccess(judge))


def _allow_below(path: Path) -> Allowed:
    """Allow a folder, or the folder of a file."""
    return Tree(path if path.is_dir() else path.parent).inside


def report_refused(
    files: Mapping[str, Path | bytes | Archive], allowed: Allowed | None, at: Span
) -> list[Problem]:
    """Report the first few files that must not be uploaded, for where they come from or for their names."""
    outside = () if allowed is None else ((name, path) for name, path in _copied(files) if not allowed(path))
    inner = [name for source in files.values() if isinstance(source, Archive) for name, _ in source.files]
    unreadable = [name for name in (*files, *inner) if not _is_text(name)]
    return [
        *(
            report_outside_project(name, os.path.realpath(path), at)
            for name, path in islice(outside, _MAX_LISTED)
        ),
        *(_report_not_text(name, at) for name in unreadable[:_MAX_LISTED]),
    ]


def _copied(files: Mapping[str, Path | bytes | Archive]) -> Iterator[tuple[str, Path]]:
    """Every file that is copied, those of a zip too."""
    for name, source in files.items():
        if isinstance(source, Archive):
            yield from source.files
        elif isinstance(source, Path):
            yield name, source


def find_not_copied(problems: Iterable[Problem], allowed: Allowed | None) -> list[Problem]:
    """The problems for which something may not be copied. Each is an error, whatever a comment says."""
    slugs = ("copy-outside-tree", "too-many-files", *(_OUTSIDE if allowed is not None else ()))
    refused = [problem for problem in problems if problem.slug in slugs]
    return [
        replace(problem, slug="copy-outside-tree") if problem.slug in _OUTSIDE else problem
        for problem in refused
    ]


def raise_to_errors(diagnostics: tuple[Diagnostic, ...], allowed: Allowed | None) -> list[Diagnostic]:
    """All findings, with those of code outside of the project as errors; none if nothing lies outside."""
    return [] if allowed is None else make_errors(diagnostics, _OUTSIDE)


def make_errors(diagnostics: Sequence[Diagnostic], slugs: Collection[str]) -> list[Diagnostic]:
    """All findings, with those of some slugs as errors; none if there are none of these."""
    if all(finding.slug not in slugs for finding in diagnostics):
        return []
    return [
        replace(finding, severity="error") if finding.slug in slugs else finding for finding in diagnostics
    ]


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def _report_not_text(name: str, at: Span) -> Problem:
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")
    message = f"the name of the file `{shown}` is not UTF-8, so it cannot be uploaded"
    return Problem("file-name-not-text", at, message, "rename it, or exclude it with `.amlignore`")
