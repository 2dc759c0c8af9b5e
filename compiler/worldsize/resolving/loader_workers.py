"""The loader workers that a script starts where its command does not say: the default of its option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from worldsize.azureml.command_line import parse_commands
from worldsize.azureml.files import Files
from worldsize.azureml.model import Component
from worldsize.azureml.references import is_file, local_path
from worldsize.base import untrusted
from worldsize.planning.shared_memory import OPTION

if TYPE_CHECKING:
    import ast

LARGEST = 1024 * 1024  # bytes of a script that is read
MOST = 256  # workers of a process
_LOADER = "DataLoader"
_DECLARES = ("add_argument", "option", "Option")  # of argparse, click and typer


def read_loader_workers(component: Component, files: Files) -> int | None:
    """The number that the script of a command starts by default; None if it cannot be known from it alone."""
    text = _read_script(component, files)
    if text is None or _LOADER not in text:
        return None
    import ast  # most steps have no script of their own

    from worldsize.scripts.module import parse_text

    try:
        calls = [node for node in ast.walk(parse_text(text)) if isinstance(node, ast.Call)]
    except SyntaxError:  # reported with the script
        return None
    options = list(_find_defaults(calls))
    given = options or list(_find_literals(calls))
    known = {each for each in given if each is not None}
    return known.pop() if len(known) == 1 and None not in given else None


def _read_script(component: Component, files: Files) -> str | None:
    command, code = component.command, component.code
    if command is None or code is None or component.folder is None:
        return None
    if not isinstance(command.value, str) or not isinstance(code.value, str):
        return None
    folder = local_path(code.value, component.folder)
    words = [word.text for each in parse_commands(command.value) for word in each.words]
    scripts = [word for word in words if re.fullmatch(r"[\w./-]{1,200}\.py", word)]
    path = folder / scripts[0] if folder is not None and len(scripts) == 1 else None
    if path is None or not is_file(path) or not files.readable(path):
        return None
    try:
        return untrusted.read_text(path, LARGEST)
    except OSError:
        return None


def _find_defaults(calls: list[ast.Call]) -> Iterator[int | None]:
    """The defaults of the options that say how many workers there are; None for one that is no number."""
    import ast

    for call in calls:
        names = [str(each.value) for each in call.args if isinstance(each, ast.Constant)]
        if _name(call) in _DECLARES and any(map(OPTION.fullmatch, names)):
            yield _read_number(call, "default")


def _find_literals(calls: list[ast.Call]) -> Iterator[int | None]:
    """What loaders are given; one that is given nothing has no workers."""
    for call in calls:
        if _name(call) == _LOADER:
            has_more = any(each.arg is None for each in call.keywords)  # `**options`
            told = any(each.arg == "num_workers" for each in call.keywords)
            yield _read_number(call, "num_workers") if told else None if has_more else 0


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def _read_number(call: ast.Call, name: str) -> int | None:
    value = next((getattr(each.value, "value", None) for each in call.keywords if each.arg == name), None)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None
