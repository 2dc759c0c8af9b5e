"""Says why a check found no file to check, which looks like a clean project."""

from __future__ import annotations

# Paths are strings here, as in `discover`.
# ruff: noqa: PTH112, PTH118
import os
from collections.abc import Sequence

from worldsize.base.wording import join_words, plural, quoted_list
from worldsize.checking import discover


def explain_nothing(
    paths: Sequence[str | os.PathLike[str]],
    exclude: Sequence[str],
    projects: Sequence[discover.Project],
    excluded: int,
) -> str:
    """Return the reasons as one sentence, with the number of files of each.

    Args:
        paths: What was to be checked.
        exclude: The patterns of the command line.
        projects: The files that were left to check.
        excluded: How many of them settings exclude.
    """
    present = {file for path in paths for file in _list_all(os.fspath(path))}
    if not present:
        where = f" in {quoted_list(os.fspath(path) for path in paths)}" if paths else ""
        return f"there is no YAML file{where}"
    listed = {file.path for file in discover.list_files(paths)}
    left = {file.path for project in projects for file in project.files}
    other = [file for file in left if not discover.is_settings(file)]
    counts = (
        (len(present - listed), "ignored by git"),
        (len(listed - left), f"excluded by `{' '.join(f'--exclude {each}' for each in exclude)}`"),
        (excluded, "excluded by `exclude:` of worldsize.yml"),
        (len(other) - excluded, "neither a spec nor Azure ML YAML"),
    )
    parts = [f"{count} {_is(count)} {why}" for count, why in counts if count > 0]
    settings = len(left) - len(other)
    total = plural(len(present) - settings, "YAML file")
    return f"of {total}, {join_words(parts, 'and')}" if parts else ""  # there is worldsize.yml only


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _list_all(path: str) -> list[str]:
    """The YAML files at and below a path, also those that git ignores."""
    name = os.path.normpath(path)
    if not os.path.isdir(name):
        return [name]
    found: list[str] = []
    for parent, folders, names in os.walk(name):
        folders[:] = [each for each in folders if each not in discover.SKIPPED_FOLDERS]
        found += [
            os.path.normpath(os.path.join(parent, each))
            for each in names
            if each.lower().endswith(discover.SUFFIXES)
        ]
    return found
