"""Leaves out what is missing only in the repository: a file is fetched, a value set, a template filled.

What the placeholders of a template cause is not a fault; the file is said to be a template.

A file that is missing beside standard input may be beside the file that it is the text of.

The search is bounded: the scripts and workflows in the folder of the YAML, in the two above it, where a
repository usually keeps them, and in the folder that lacks the file.
"""

from __future__ import annotations

# Paths are strings here, as in the search for files.
# ruff: noqa: PTH100, PTH118, PTH119, PTH120, PTH112
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from worldsize.azureml import ignore
from worldsize.azureml.references import list_names
from worldsize.azureml.tree import Tree
from worldsize.base import untrusted
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.rules import registry

UNNAMED = "-"  # standard input that stands for no file, so that nobody knows what its paths are relative to
_MISSING = frozenset(
    {
        "data-missing",
        "data-source-missing",
        "code-missing",
        "script-missing",
        "environment-missing",
        "component-missing",
        "include-missing",
        "copied-file-missing",
        "mltable-path-missing",
    }
)
_SET_IN_CODE = frozenset({"pipeline-input-empty", "data-without-path"})
_FILLED_IN = frozenset({"aml-missing-key", "aml-empty-value", "aml-component-name"})  # of templates
_SCRIPTS = (".sh", ".ps1", ".bat", ".cmd", ".py", ".ipynb", ".r", "makefile", ".gitmodules")
_WORKFLOWS = (".yml", ".yaml")
_FETCHES = compile_later(
    r"download|clone|wget|curl|azcopy|retrieve|unzip|extract|untar|\btar\b|mkdir|makedirs|snapshot|submodule"
    r"|\bcp\b|copy|\bmv\b|rename|move|\bsave|to_(?:csv|json|parquet)|write|\bdump|touch|generate"
    r"|\bfreeze\b|\bexport\b|--output|>[ \t]{0,4}[\"']?[\w./${}-]{1,80}\.\w{2,5}\b",
    re.IGNORECASE,
)
_ASSIGNS = compile_later(r"\s{0,40}(?:export\s)?\w{0,40}(?:dir|folder|path|dataset)\w{0,20}=", re.IGNORECASE)
_LOADS = compile_later(r"load_(?:job|component)|--set\b|%%writefile\b")
_CONTINUED = compile_later(r"[\\`]\r?\n")  # one command on several lines, in bash or PowerShell
_OF_REPOSITORIES = (
    "",
    ".github/workflows",
    ".azuredevops",
    ".azure-pipelines",
    ".pipelines",
    "scripts",
    "bin",
)
_LARGEST = 2 * 1024 * 1024  # bytes of a script that are read
_FILES = 60  # scripts of a folder that are read
_AROUND = 300  # characters of a long line that are looked at before and after the name
_SHORTEST = 3  # the shortest name that is searched for


def is_provided(problem: Problem, sources: Mapping[str, Source], context: Tree) -> bool:
    """Whether a problem is that of a file which a script provides, or of a value that code sets."""
    span = problem.span
    if problem.slug in _FILLED_IN:
        return "template" in os.path.basename(span.path).lower()
    if problem.slug in _SET_IN_CODE:
        name = os.path.basename(span.path)
        lines = _search(context, _folders_around(span.path, context), name)
        return any(_LOADS.search(line) for line in lines)
    if problem.slug == "mltable-path-missing" and problem.related:
        span = problem.related[0].span  # in the file `MLTable`
    if problem.slug in _MISSING and span.path == UNNAMED:
        return True
    if problem.slug not in _MISSING or span.path not in sources or span.end_line != span.line:
        return False
    text = sources[span.path].text_under(span).strip("\"'").removeprefix("file:").rstrip("/")
    return bool(text) and _is_fetched(text, span.path, context)


def _is_fetched(text: str, file: str, context: Tree) -> bool:
    path = os.path.join(os.path.dirname(file), text)
    present, missing = _split_missing(path)
    if not context.inside(present) or untrusted.find_fault(path) is not None:  # what is there is no file
        return False
    below_tree = os.path.relpath(os.path.realpath(file), os.path.realpath(context.root))
    if "template" in below_tree.lower():  # what it names lies where the template is used
        return True
    if _is_left_out(present, missing, context):
        return True
    names = {missing[0], missing[-1]} if missing else set()
    for name in sorted(names):
        if len(name) >= _SHORTEST:
            lines = _search(context, (present, *_folders_around(file, context)), name)
            if any(_FETCHES.search(line) or _ASSIGNS.match(line) for line in lines):
                return True
    return False


def _split_missing(path: str) -> tuple[str, list[str]]:
    """The part of a path that exists, and the names below it."""
    present = os.path.normpath(path)
    missing: list[str] = []
    while not os.path.isdir(present) and os.path.dirname(present) != present:
        present, name = os.path.split(present)
        missing.insert(0, name)
    return present or ".", missing


def _is_left_out(present: str, missing: list[str], context: Tree) -> bool:
    """Whether git ignores the path, or it is in a submodule that is not checked out, an empty folder."""
    beside = list_names(Path(present))
    if not beside:
        return True
    folder, below = os.path.realpath(present), list(missing)
    while context.inside(folder):
        lines = _read(os.path.join(folder, ".gitignore"))
        if lines is not None:
            rules = ignore.parse_ignore_file(lines.encode())
            above = below[: len(below) - len(missing)]
            present_too = any(rules.excludes([*above, name]) for name in beside)
            inside = [*below, "file"]  # what is missing may be a folder, of which only the content is ignored
            excluded = any(rules.excludes(inside[:depth]) for depth in range(1, len(inside) + 1))
            if excluded and not present_too:  # else what is ignored is here, without this file
                return True
        folder, name = os.path.split(folder)
        below.insert(0, name)
        if folder == os.path.dirname(folder):
            break
    return False


def _folders_around(file: str, context: Tree) -> Iterator[str]:
    folder = os.path.dirname(os.path.abspath(file))
    for _ in range(3):
        yield folder
        folder = os.path.dirname(folder)
    yield from (os.path.join(context.root, place) for place in _OF_REPOSITORIES)


def _search(context: Tree, folders: Iterable[str], name: str) -> Iterator[str]:
    """The lines of the scripts in the folders that have a name, as a whole word."""
    for folder in dict.fromkeys(map(context.files.real_paths.resolve, folders)):
        for text in context.once_for(_read_scripts, folder) if context.inside(folder) else ():
            at = text.find(name)
            while at >= 0:
                end = at + len(name)
                if not (_is_of_word(text[at - 1 : at]) or _is_of_word(text[end : end + 1])):
                    line = slice(text.rfind("\n", 0, at) + 1, text.find("\n", end) % (len(text) + 1))
                    yield text[max(line.start, at - _AROUND) : min(line.stop, end + _AROUND)]
                at = text.find(name, end)


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character in ("_", "-")


def _read_scripts(_context: Tree, folder: str) -> list[str]:
    """The texts of a folder's scripts."""
    listed = list_names(Path(folder))
    likely = [name for name in listed if name.lower().endswith(_SCRIPTS)][:_FILES]
    others = [name for name in listed if name.endswith(_WORKFLOWS) or "." not in name][:_FILES]
    texts = [_read(os.path.join(folder, name)) for name in likely]
    for text in (_read(os.path.join(folder, name)) for name in others):
        texts += [text] if text is not None and (text.startswith("#!") or "az ml " in text) else []
    return [_CONTINUED.sub("  ", text) for text in texts if text is not None]


def _read(path: str) -> str | None:
    try:
        return untrusted.read_text(path, _LARGEST, errors="replace")
    except OSError:
        return None


_PLACEHOLDER = re.compile(
    r"(?<!\$)\{\{(?!\s?(?:parent\.|\$))[^{}\n]{1,80}\}\}|\{%[^\n]{1,200}?%\}"  # Jinja, Mustache, cookiecutter
    r"|(?<![${\w])\{[A-Za-z_][\w-]{0,80}\}"  # str.format
    r"|<[ \t]{0,4}[A-Za-z][^<>|&;\n]{0,80}>"  # <fill in>
    r"|\b(?:(?:TODO|FIXME|TBD|CHANGE_?ME|REPLACE_?ME|FILL_?ME)(?:_\w{1,80})?|(?:YOUR|INSERT|PATH_TO)_\w{1,80})\b"
    r"|\byour[-_]\w{1,80}|\bpath/to/|\[[A-Z][A-Z _-]{2,80}\]|^[\"']?\.\.\.[\"']?$"
    r"|#\{[\w.-]{1,80}\}#|__[A-Z][A-Z0-9_]{0,80}__|%[A-Z_]{2,80}%|@[A-Z_]{2,80}@"  # replace tokens, sed
)
# Azure DevOps, envsubst. Among other words the shell fills them in.
_VARIABLE = re.compile(
    r"(?!\{\{)[^\s$]{0,80}(?P<name>\$\([A-Za-z][\w.-]{0,80}\)|\$(?!schema\b)\{?[A-Za-z_]\w{0,80}\}?)(?![{\w\[.])\S*"
)
# Rules over code have tokens in which these characters are code; a secret counts wherever it stands.
_FAMILIES = frozenset({"spec", "data", "graph", "schedule", "topology"})
_SLUGS = frozenset(
    {"environment-unpinned", "image-unpinned", "component-unpinned", "dependency-unpinned", "yaml-syntax"}
)


def leave_out_unfilled(problems: Iterable[Problem], sources: Mapping[str, Source]) -> list[Problem]:
    """Replace the problems whose token is a placeholder by one note in each file."""
    kept: list[Problem] = []
    notes: dict[str, tuple[Span, str]] = {}
    unreadable: set[str] = set()
    for problem in problems:
        placeholder = _find_placeholder(problem, sources)
        if placeholder is None:
            kept.append(problem)
            continue
        path = problem.span.path
        notes[path] = min(notes.get(path, (problem.span, placeholder)), (problem.span, placeholder))
        if problem.slug == "yaml-syntax":
            unreadable.add(path)
    kept = [
        problem for problem in kept if problem.slug != "yaml-syntax" or problem.span.path not in unreadable
    ]
    return kept + [_describe(span, text, unreadable) for span, text in notes.values()]


def _find_placeholder(problem: Problem, sources: Mapping[str, Source]) -> str | None:
    span = problem.span
    source = sources.get(span.path)
    if source is None or not _may_be_unfilled(problem.slug):
        return None
    is_syntax = problem.slug == "yaml-syntax"
    if is_syntax and "azureml" not in source.text:
        return None
    text = source.line(span.line) if is_syntax else source.text_under(span)
    match = _PLACEHOLDER.search(text)
    if match is None and (variable := _VARIABLE.fullmatch(text)) is not None:
        return variable["name"]
    return match[0] if match else None


def _may_be_unfilled(slug: str) -> bool:
    rule = registry.find(slug)
    return slug in _SLUGS or (rule is not None and rule.family in _FAMILIES)


def _describe(span: Span, text: str, unreadable: set[str]) -> Problem:
    checked = "nothing in it is checked" if span.path in unreadable else "what depends on it is not checked"
    message = f"`{text}` is a placeholder, so this file is a template: {checked}"
    return Problem("template-not-filled", span, message, "check the file that is made from it")
