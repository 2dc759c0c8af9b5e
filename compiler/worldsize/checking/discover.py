"""Finds the files to check, and recognises the kind of each by its keys."""

from __future__ import annotations

# Paths are strings here: a Path object per file is slow in big trees.
# ruff: noqa: PTH118, PTH119, PTH120, PTH110, PTH112, PTH113
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from worldsize.azureml.copying import RealPaths
from worldsize.base import limits, untrusted
from worldsize.base.patterns import compile_later
from worldsize.base.span import Span
from worldsize.base.suggest import closest
from worldsize.base.wording import join_words, plural, quoted_list
from worldsize.documents.yaml import Document, Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from worldsize.checking.exclusion import Excluded

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".venv", "venv", ".tox", ".worldsize", "node_modules", "__pycache__"}
)
SUFFIXES = (".yml", ".yaml")
MAX_ENTRIES = 2_000_000  # files and folders below a checked folder
SETTINGS = ("worldsize.yml", "worldsize.yaml")


class CheckedFile(NamedTuple):
    """A file to check; ``named`` if the user gave its path, not that of the ``folder`` above it."""

    path: str
    named: bool
    folder: str = ""


class Project(NamedTuple):
    """Files that are checked together, because they share a tree and settings."""

    tree: str  # real path: nothing outside is read
    settings: str | None
    files: tuple[CheckedFile, ...]


def list_files(paths: Iterable[str | os.PathLike[str]], exclude: Collection[str] = ()) -> list[CheckedFile]:
    """The YAML files at and below the paths, sorted, each once. Linked folders are not entered.

    Files that git ignores are listed only if they, or the folder that is ignored, are named.

    Raises:
        ValueError: A folder holds more files than can be intended.
    """
    excluded = _compile_globs(".", exclude)
    files_by_path: dict[str, CheckedFile] = {}
    for path in paths:
        name = os.path.normpath(os.fspath(path))
        if os.path.isdir(name):
            for file in _below(name, excluded):
                listed = files_by_path.get(file)
                if listed is None or not (listed.named or len(listed.folder) > len(name)):
                    files_by_path[file] = CheckedFile(file, named=False, folder=name)
        elif excluded is None or not excluded.covers(find_location(name)):
            files_by_path[name] = CheckedFile(name, named=True)
    return sorted(files_by_path.values())


def _compile_globs(folder: str, globs: Collection[str]) -> Excluded | None:
    if not globs:
        return None
    from worldsize.checking import exclusion  # few checks exclude anything

    return exclusion.compile_globs(folder, globs)


def find_location(path: str) -> str:
    """The absolute path of a file or folder with the links of its folders resolved, but not its own."""
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name)


def _below(folder: str, excluded: Excluded | None) -> Iterator[str]:
    from worldsize.checking import exclusion  # a check of files lists no folder

    looked_at = 0
    root = os.path.realpath(folder)
    ignored = exclusion.GitIgnored()
    ignored.enter_first(root, find_tree(root))

    def is_left_out(path: str, *, is_folder: bool) -> bool:
        return ignored.covers(path, is_folder=is_folder) or (
            excluded is not None and excluded.covers(path, is_folder=is_folder)
        )

    if excluded is not None and excluded.covers(root, is_folder=True):
        return
    for parent, folders, names in os.walk(folder):
        looked_at += len(folders) + len(names)
        if looked_at > MAX_ENTRIES:
            raise ValueError(
                f"`{folder}` holds more than {MAX_ENTRIES:,} files and folders; name the folders to check"
            )
        location = os.path.join(root, parent[len(folder) :].lstrip(os.sep)).rstrip(os.sep)
        ignored.enter(location, is_repository=".git" in folders or ".git" in names)
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED_FOLDERS and not is_left_out(os.path.join(location, name), is_folder=True)
        )
        for name in names:
            path = os.path.join(location, name)
            unusable = name == ".gitignore" and untrusted.find_fault(path)  # it is listed to be reported
            if unusable or (name.lower().endswith(SUFFIXES) and not is_left_out(path, is_folder=False)):
                yield os.path.normpath(os.path.join(parent, name))


def group_projects(paths: Iterable[str | os.PathLike[str]], exclude: Collection[str] = ()) -> list[Project]:
    """The files at and below the paths, by the tree and the ``worldsize.yml`` that they belong to."""
    find_tree_once = cache(find_tree)
    grouped: dict[tuple[str, str | None], list[CheckedFile]] = {}
    settings_in = cache(_settings_in)  # folders of one tree share those above them
    real_paths = RealPaths()
    for file in list_files(paths, exclude):
        tree = find_tree_once(file.folder or file.path)
        folder = real_paths.resolve(os.path.dirname(file.path))
        settings = next(list_settings_above(folder, tree, settings_in), None)
        grouped.setdefault((tree, settings), []).append(file)
    return [Project(tree, settings, tuple(members)) for (tree, settings), members in grouped.items()]


def find_left_out(
    project: Project, globs: Iterable[tuple[str, Collection[str]]], exclude: Collection[str]
) -> Callable[[str], bool]:
    """Which files nothing is reported of, also where others refer to them.

    ``exclude`` is from the command line and always counts. ``globs`` are those of settings, by folder; they
    do not count for a file that is named, or found below a folder that is itself excluded and named.
    """
    from_caller = _compile_globs(".", exclude)
    from_settings = [
        excluded for folder, patterns in globs if (excluded := _compile_globs(folder, patterns)) is not None
    ]
    if from_caller is None and not from_settings:
        return lambda _path: False
    named = {file.path for file in project.files if file.named}
    starts = {file.path: file.folder or os.path.dirname(file.path) for file in project.files}
    all_starts = set(starts.values())

    def is_excluded(excluded: Excluded, path: str) -> bool:
        meant = {starts[path]} if path in starts else all_starts
        return excluded.covers(find_location(path)) and not any(
            excluded.covers(os.path.realpath(start), is_folder=True) for start in meant
        )

    @cache
    def is_left_out(path: str) -> bool:
        if from_caller is not None and from_caller.covers(find_location(path)):
            return True
        return path not in named and any(is_excluded(excluded, path) for excluded in from_settings)

    return is_left_out


def find_tree(path: str | os.PathLike[str]) -> str:
    """The folder whose files belong together: the git checkout around a path.

    Outside of one it is the working folder if that holds the path, else the nearest folder above
    with a ``worldsize.yml``, else the folder itself.
    """
    above = list(_above(_folder_of(path)))
    checkout = _checkout(above)
    if checkout is not None:
        return checkout
    working = os.path.realpath(".")
    if working in above:
        return working
    return _with_settings(above) or above[0]


def is_whole(project: Project, paths: Iterable[str | os.PathLike[str]]) -> bool:
    """Whether the paths hold all files of a project in a checkout; without one they are all there is."""
    if not os.path.exists(os.path.join(project.tree, ".git")):
        return True
    return any(project.tree == os.path.realpath(path) for path in paths)


def find_project(path: str | os.PathLike[str]) -> str | None:
    """The root of the project, given by a checkout or a ``worldsize.yml``; None without either."""
    above = list(_above(_folder_of(path)))
    return _checkout(above) or _with_settings(above)


def find_settings(folder: str, tree: str) -> str | None:
    """The nearest ``worldsize.yml`` at or above a folder of the tree."""
    return next(list_settings_above(folder, tree), None)


def list_settings_above(
    start: str, tree: str, settings_in: Callable[[str], str | None] | None = None
) -> Iterator[str]:
    """The ``worldsize.yml`` of a folder of a tree and of the folders above it, the nearest first."""
    for folder in _above(start):
        path = (settings_in or _settings_in)(folder)
        if path is not None:
            yield path
        if folder == tree:
            return


def _folder_of(path: str | os.PathLike[str]) -> str:
    real = os.path.realpath(path)
    return real if os.path.isdir(real) else os.path.dirname(real)


def _checkout(folders: list[str]) -> str | None:
    return next((folder for folder in folders if os.path.exists(os.path.join(folder, ".git"))), None)


def _with_settings(folders: list[str]) -> str | None:
    return next((folder for folder in folders if _settings_in(folder)), None)


def _above(folder: str) -> Iterator[str]:
    """A folder and all folders above it."""
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _settings_in(folder: str) -> str | None:
    paths = (os.path.join(folder, name) for name in SETTINGS)
    there = (path for path in paths if os.path.isfile(path) or untrusted.find_fault(path, folder=True))
    return next((path for path in there if not _is_workflow(path)), None)


def _is_workflow(path: str) -> bool:
    """Whether a file is a GitHub workflow, which may be called ``worldsize.yml`` like the settings."""
    return os.path.basename(os.path.dirname(path)) == "workflows"


def is_settings(path: str) -> bool:
    """Whether a file is the settings of a project."""
    return os.path.basename(path) in SETTINGS and not _is_workflow(path)


def recognise_kind(document: Document, *, named: bool) -> str | None:
    """``spec``, ``settings`` (``worldsize.yml``), a kind of :mod:`worldsize.azureml.shape`, or None."""
    if is_settings(document.path):
        return "settings"
    root = document.root
    if not isinstance(root, Mapping):
        return None
    if "steps" in root and "jobs" not in root and "$schema" not in root:
        return "spec" if _is_spec(document, root, named=named) else None
    from worldsize.azureml.shape import recognise  # a spec alone needs none of it

    return recognise(root, document.path)


def find_declared(tree: str, name: str) -> Iterator[tuple[str, str, Mapping]]:
    """The files of a project that declare something of a name, such as data or a cluster; kinds and roots."""
    from worldsize.documents import yaml  # to find files takes no parser

    for file in list_files([os.path.relpath(tree)]):
        text = ""
        with untrusted.passed_over():
            text = untrusted.read_text(file.path, limits.TEXT, errors="replace")
        document = yaml.load(Path(file.path)) if name in text else None
        kind = recognise_kind(document, named=False) if document is not None else None
        if document is not None and kind is not None and isinstance(document.root, Mapping):
            value = document.root.get("name")
            if isinstance(value, Scalar) and value.text == name:
                yield file.path, kind, document.root


def find_schema_in_list(root: Node | None) -> Span | None:
    """The place of the ``$schema`` of Azure ML in the first item of a list."""
    first = root.items[0] if isinstance(root, Sequence) and root.items else None
    schema = first.get("$schema") if isinstance(first, Mapping) else None
    return schema.span if isinstance(schema, Scalar) and "azureml" in schema.text else None


def _is_spec(document: Document, root: Mapping, *, named: bool) -> bool:
    """Whether a file with ``steps:`` is ours; Azure DevOps, Codefresh, Woodpecker and others have some, too.

    A spec whose path is given may lack more of what a spec has.
    """
    steps = root.get("steps")
    if "spec.schema.json" in document.text or not isinstance(steps, Mapping):
        return "spec.schema.json" in document.text or (named and "compute" in root)
    if isinstance(root.get("compute"), Mapping):
        return True
    members = [step for _, step in steps.items() if isinstance(step, Mapping)]
    if any(_is_step(step) for step in members):
        return True
    keys = {key for step in members for key in step}
    # A script's own configuration may name assets, too, but its steps are not ours.
    runs = not keys or any(closest(key, ("uses", "command")) is not None for key in keys)
    if runs and _SURE.search(document.text):
        return True
    return named and (not keys or any(closest(key, ("uses",)) is not None for key in keys))


def _is_step(step: Mapping) -> bool:
    return "uses" in step or ("command" in step and any(key in step for key in _BESIDE_COMMAND))


_BESIDE_COMMAND = ("code", "compute", "distribution", "environment", "instance_count", "needs", "with")

# Only our files contain these.
_SURE = compile_later(
    r"azuremlschemas|spec\.schema\.json|azureml:|\$\{\{\s*(?:parent|plan|search_space)\.|\buri_(?:file|folder)\b"
)

_SCHEMA = compile_later(r"^\$schema:.*azureml", re.MULTILINE)
_DEVOPS = compile_later(
    r"^(?:pr|pool|stages):|^[ \t]*-[ \t]+(?:script|task|stage|job|bash|pwsh):", re.MULTILINE
)

# Files of other tools contain these, too; those are recognised by their other keys.
_STEP_OF_SPEC = compile_later(r"^[ \t]*(?:component|uses):", re.MULTILINE)
_KIND = r"""["']?(?:pipeline|command|sweep|parallel|spark)\b"""
_TYPED = compile_later(rf"^type:[ \t]*{_KIND}", re.MULTILINE)
_JOBS = compile_later(r"^jobs:", re.MULTILINE)
_STEP = compile_later(
    rf"\btype:[ \t]*{_KIND}|^[ \t]+(?:[\w-]+:[ \t]*\{{[ \t]*)?(?:command|trial|compute|environment):",
    re.MULTILINE,
)

# A file name is enough only together with a key that such a file begins with.
_NAME = compile_later(r"(?:^|[-_.])(?:pipeline|job|component|sweep)(?:[-_.]|$)", re.IGNORECASE)
_ROOT_KEY = compile_later(
    r"^(?:inputs|outputs|command|code|environment|compute|settings|jobs|trial|search_space):", re.MULTILINE
)

# GitHub, Kubernetes, GitLab, Concourse, Kubeflow, and the templates of Helm and Jinja.
_FOREIGN = compile_later(
    r"^[ \t]*(?:-[ \t]+)?(?:runs-on|script|plan):|^(?:on|runs|apiVersion|stages|implementation):"
    r"|^jobs:[ \t]*\n[ \t]*-\s|(?<!\$)\{\{|^[ \t]*\{%",
    re.MULTILINE,
)
# CircleCI, Azure DevOps, Buildkite; and a spec.
_STEPS = compile_later(r"^[ \t]*(?:-[ \t]+)?steps:", re.MULTILINE)


def looks_like_azureml(path: str, text: str) -> bool:
    """Whether a file that is not valid YAML is ours, so that its faults are reported."""
    if _SURE.search(text):  # a pipeline of Azure DevOps names assets of Azure ML in its scripts
        return _SCHEMA.search(text) is not None or _DEVOPS.search(text) is None
    if _FOREIGN.search(text):
        return False
    if _STEP_OF_SPEC.search(text):
        return True
    if _STEPS.search(text):
        return False
    if _TYPED.search(text) or (_JOBS.search(text) and _STEP.search(text)):
        return True
    return bool(_NAME.search(PurePath(path).stem) and _ROOT_KEY.search(text))


def explain_nothing(
    paths: Collection[str | os.PathLike[str]],
    exclude: Collection[str],
    projects: Collection[Project],
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
    listed = {file.path for file in list_files(paths)}
    left = {file.path for project in projects for file in project.files}
    other = [file for file in left if not is_settings(file)]
    counts = (
        (len(present - listed), "ignored by git"),
        (len(listed - left), f"excluded by `{' '.join(f'--exclude {pattern}' for pattern in exclude)}`"),
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
    files: list[str] = []
    for parent, folders, names in os.walk(name):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        files += [
            os.path.normpath(os.path.join(parent, file)) for file in names if file.lower().endswith(SUFFIXES)
        ]
    return files
