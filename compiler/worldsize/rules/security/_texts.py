"""The texts that a component uploads and that people write: scripts, settings, requirements, Dockerfiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath

from worldsize.azureml import environment
from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of
from worldsize.base.patterns import compile_later
from worldsize.base.source import Source
from worldsize.rules.context import Context
from worldsize.rules.security._uploads import Upload, is_secret_file

_LANGUAGES = {
    "python": (".py", ".json", ".toml", ".ipynb"),
    "shell": (".sh", ".bash", ".ps1", ".r", ".cfg", ".ini", ".txt", ".properties", ".in"),
    "command": (".yml", ".yaml"),
}
_LANGUAGE_OF = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}
_OF_TESTS = compile_later(r"(?:^|/)(?:tests?|fixtures|mocks?)/|(?:^|/)(?:test_|conftest)[^/]*$|_test\.py$")
PASSWORD = compile_later(r"[\d!@#%^&*?+~]")  # in code, a password has more than letters
_LARGEST = 256 * 1024  # bytes of a file that is read; what is larger is data
_FILES = 200  # of one upload that are read


def find_texts(context: Context, upload: Upload) -> list[tuple[Source, str]]:
    """The texts of an upload, each with the language that its assignments are read as."""
    return context.all_of(_find_texts, upload.part)


def _find_texts(context: Context, part: object) -> Iterator[tuple[Source, str]]:
    listing = part.listing  # type: ignore[attr-defined]
    read = 0
    for place, path in listing.files.items():
        language = _find_language(place)
        if language is None or not 0 < listing.sizes[place] <= _LARGEST or _OF_TESTS.search(place):
            continue
        source = (
            context.text(os.path.relpath(path)) if read < _FILES and not is_secret_file(place, path) else None
        )
        if source is not None:
            read += 1
            yield context.once(_start_texts, source).setdefault(language, (source, language))


def find_conda_files(context: Context, component: Component) -> list[tuple[Source, str]]:
    """The texts of the conda files that an environment names: they need not lie in the code."""
    return context.all_of(_find_conda_files, component)


def _find_conda_files(context: Context, component: Component) -> Iterator[tuple[Source, str]]:
    field = component.environment
    if field is None or field.node is None:
        return
    for reference in environment.list_references(field, folder_of(field.node)):
        is_conda = reference.key == "conda_file" and not context.is_folder(reference.path)
        source = context.text(os.path.relpath(reference.path)) if is_conda else None
        if source is not None:
            yield context.once(_start_texts, source).setdefault("command", (source, "command"))


def _start_texts(_context: Context, _source: Source) -> dict[str, tuple[Source, str]]:
    """A file by its language: in several uploads it is one subject, whose findings are the same in each."""
    return {}


def _find_language(place: str) -> str | None:
    path = PurePosixPath(place)
    return "shell" if "dockerfile" in path.name.lower() else _LANGUAGE_OF.get(path.suffix.lower())
