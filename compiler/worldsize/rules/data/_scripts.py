"""Code that is not in the code folder, or that an ignore file leaves out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile, pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from worldsize.azureml import command_line, ignore, references
from worldsize.azureml.command_launchers import read_launcher_call
from worldsize.azureml.command_line import Command, Word
from worldsize.azureml.model import Component
from worldsize.azureml.references import classify, exists, folder_of, is_file, is_folder, local_path
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, Problem
from worldsize.base.span import Span
from worldsize.base.suggest import closest
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.shared.entry_scripts import find_entry_scripts


class Script(NamedTuple):
    """A file that a command starts or installs from, and the place of its name."""

    name: str
    span: Span
    verb: str = "starts"
    is_split: bool = False  # a name with spaces that is not in quotes


_SUFFIXES = (".py", ".sh", ".R", ".r")
_COMMANDS = 200  # of one step that are looked at
_INTERPRETER = re.compile(r"\(?(?:python3?(?:\.\d+)?|bash|sh|Rscript)")
_OPTION = re.compile(r"-[uBOEsSIex]+")  # takes no value
_PIP = re.compile(r"pip3?(?:\.\d+)?")
_REQUIREMENTS = re.compile(r"[\w./-]+\.(?:txt|in|pip)")
_NAME = re.compile(r"[\w./-]+\.(?:py|sh|R|r)")
_MODULE = re.compile(r"[\w./-]+\.py")
_PART = re.compile(r"[\w./][\w./-]*")
# Commands that make or fetch files, or go elsewhere: after them nothing is known of the folder.
_MAKES = re.compile(r"\b(?:cd|git|wget|curl|unzip|tar|cp|mv|azcopy|az|pushd|touch|echo|cat|tee)\b|>")


class ScriptSearch(NamedTuple):
    """A script, and the folders it may lie in. ``code`` is None where the component has none."""

    script: Script
    code: Path | None
    included: tuple[Path, ...]
    shown: str  # the code as written
    found: bool  # whether the code folder has it
    ignored_by: str | None  # the name of the ignore file that leaves it out

    def exists(self) -> bool:
        """Whether the code folder or an include has the file."""
        name = self.script.name
        if self.found:
            return True
        first, _, rest = name.partition("/")
        return any(path.name == first and is_file(path / rest if rest else path) for path in self.included)


def check_component(context: Tree, component: Component) -> Iterator[Problem]:
    for search in _search_scripts(context, component):
        if search.script.is_split:
            yield from _split(search)
        elif not search.exists():
            yield _missing(search)
        if search.ignored_by is not None:
            name, file = search.script.name, search.ignored_by
            message = f"`{file}` of `{search.shown}` leaves `{name}` out of the upload"
            help_ = f"remove the pattern from `{file}`, or add `!{name}` as its last line"
            yield Problem("script-ignored", search.script.span, message, help_)


def _split(search: ScriptSearch) -> Iterator[Problem]:
    if search.found:
        name, span = search.script.name, search.script.span
        message = f"the shell splits `{name}` and starts `{name.partition(' ')[0]}`"
        quoted = shlex.quote(name)
        yield Problem("script-missing", span, message, f"write `{quoted}`", fix=Fix(span, quoted, safe=False))


def _missing(search: ScriptSearch) -> Problem:
    name, span = search.script.name, search.script.span
    if search.code is None:
        message = f"the command {search.script.verb} `{name}`, but there is no `code` to upload"
        where = references.find_above(name, Path(span.path).parent)
        folder_ = f"`code: {_base(where, name)}`, " if where is not None else "`code:` with "
        help_ = f"add {folder_}the folder that holds `{name}`"
        if search.shown:
            message = (
                f"the command {search.script.verb} `{name}`, but `code` is the single file `{search.shown}`"
            )
            help_ = f"write the folder that holds `{name}` after `code:`"
        return Problem("script-missing", span, message, help_)
    folder, _, last = name.rpartition("/")
    suffix = PurePosixPath(last).suffix
    names = references.list_names(search.code / folder)
    near = closest(last, [name for name in names if name != last and name.endswith(suffix)])
    message = f"`{name}` is not in the code folder `{search.shown}`"
    if near is None:
        below = next((name for name in names if is_file(search.code / folder / name / last)), None)
        help_ = f"add it there, or write its path relative to `{search.shown}`"
        where = references.find_above(name, Path(span.path).parent)
        if where is not None:
            help_ = f"write `code: {_base(where, name)}`, the folder that holds `{name}`"
        if below is not None:
            help_ = f"write `{f'{folder}/{below}' if folder else below}/{last}`"
        return Problem("script-missing", span, message, help_)
    better = f"{folder}/{near}" if folder else near
    return Problem(
        "script-missing", span, message, f"did you mean `{better}`?", fix=Fix(span, better, safe=False)
    )


def _base(path: str, name: str) -> str:
    """The folder to which ``name`` is relative."""
    return path.removesuffix(name).rstrip("/") or "."


def _look(_context: Tree, code: Path, name: str) -> tuple[bool, str | None]:
    """Whether a code folder has a script, and the ignore file that excludes it."""
    file = next((path for path in _forms(name) if is_file(code / path)), None)
    return file is not None, _ignore_file(code, file) if file else None


def _forms(name: str) -> Iterator[str]:
    """The files that a name can mean: an entry script may be the name of a module."""
    yield name
    if "/" not in name and not name.endswith(_SUFFIXES):
        module = name.replace(".", "/")
        yield from (f"{module}.py", f"{module}/__init__.py")


def _ignore_file(code: Path, name: str) -> str | None:
    file = ignore.find_ignore_file(code)
    if file is None:
        return None
    rules, parts = ignore.read_ignore_file(code), PurePosixPath(name).parts
    return file.name if any(rules.excludes(parts[:depth]) for depth in range(len(parts), 0, -1)) else None


def _kind(context: Tree, path: Path) -> str:
    """``folder``, ``file``, or nothing for a path outside the tree."""
    return "" if not context.inside(path) else "folder" if is_folder(path) else "file" if exists(path) else ""


def _search_scripts(context: Tree, component: Component) -> Iterator[ScriptSearch]:
    """The scripts that a component starts and that can be looked for."""
    command = component.command
    if command is not None and isinstance(command.node, Scalar):
        folder = folder_of(command.node)
        code = component.code
        node = code.node if code is not None and isinstance(code.node, Scalar) else None
        if code is None or node is not None:
            included = _included(component, folder)
            for script in _find_scripts(component):
                yield from _search(context, script, node, folder, included)
    for entry, node, folder in find_entry_scripts(component):
        if node is not None:
            yield from _search(context, Script(entry.text, entry.span), node, folder, ())


def _search(
    context: Tree, script: Script, code: Scalar | None, folder: Path, included: tuple[Path, ...]
) -> Iterator[ScriptSearch]:
    if code is None:
        yield ScriptSearch(script, None, included, "", found=False, ignored_by=None)
        return
    path = local_path(code.value, folder) if isinstance(code.value, str) else None
    kind_of_code = context.once_for(_kind, path) if path is not None else ""
    if path is None or not kind_of_code:
        return
    if kind_of_code == "folder":
        yield ScriptSearch(script, path, included, code.text, *context.once_for(_look, path, script.name))
    else:  # a single file is the whole snapshot
        yield ScriptSearch(script, None, (*included, path), code.text, found=False, ignored_by=None)


def _included(component: Component, folder: Path) -> tuple[Path, ...]:
    items = component.additional_includes.value if component.additional_includes else None
    texts = [item for item in items if isinstance(item, str)] if isinstance(items, list) else []
    paths = (local_path(text, folder) for text in texts if classify(text) == "local")
    return tuple(path for path in paths if path is not None)


def _find_scripts(component: Component) -> Iterator[Script]:
    """The scripts that a command starts by a relative path, up to where the folder may have changed."""
    field = component.command
    if field is None or not isinstance(field.node, Scalar) or not isinstance(field.node.value, str):
        return
    text = field.node.text
    changed = _MAKES.search(text)
    for command in command_line.parse_commands(text[: changed.start()] if changed else text)[:_COMMANDS]:
        started, split = _started(command)
        if split is not None:
            span = field.node.subspan(split.start, split.end)
            yield Script(split.text, span, is_split=True)
        words = [(word, "installs") for word in _find_requirements(command)]
        for word, verb in [*words, *([(started, "starts")] if started is not None else [])]:
            if not word.text.startswith("/") and ".." not in word.text.split("/"):
                span = field.node.subspan(word.start, word.end)
                yield Script(word.text.removeprefix("./"), span, verb)


def _find_requirements(command: Command) -> Iterator[Word]:
    """The requirements files of a `pip install`."""
    words = command.arguments
    position = 2 if [word.text for word in words[1:3]] == ["-m", "pip"] else 0
    if (
        len(words) > position + 1
        and _PIP.fullmatch(words[position].text)
        and words[position + 1].text == "install"
    ):
        for option, word in pairwise(words[position + 2 :]):
            if option.text in ("-r", "--requirement") and _REQUIREMENTS.fullmatch(word.text):
                yield word


def _started(command: Command) -> tuple[Word | None, Word | None]:
    """The script that a command starts, and else what may be a name with spaces that is not in quotes."""
    words = list(command.words[len(list(command.assignments)) :])
    if read_launcher_call(command) is not None:
        return next((word for word in words if _MODULE.fullmatch(word.text)), None), None
    if not words or _INTERPRETER.fullmatch(words[0].text) is None:
        return None, None
    named = list(dropwhile(lambda word: _OPTION.fullmatch(word.text), words[1:]))
    if not named or _NAME.fullmatch(named[0].text):
        return (named[0] if named else None), None
    last = next((place for place, word in enumerate(named) if _NAME.fullmatch(word.text)), 0)
    if not last or not all(_PART.fullmatch(word.text) for word in named[:last]):
        return None, None
    text = " ".join(word.text for word in named[: last + 1])
    is_plain = named[last].end - named[0].start == len(text)  # one space between words, and no quotes
    return None, named[0]._replace(text=text, end=named[last].end) if is_plain else None


def check_code_from_git(context: Tree, component: Component) -> Iterator[Finding]:
    code = component.code
    if code is None or code.span is None or not isinstance(code.value, str):
        return
    if classify(code.value) == "git":
        message = f"`{code.value[:80]}` is a Git repository, but `code` takes a local folder"
        yield Finding(code.span, message, "clone the repository and name its local folder")
