"""Completion of paths: components, folders of code, and scripts in commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types

from worldsize.azureml.references import is_file, local_path
from worldsize.checking.discover import SETTINGS
from worldsize.lsp.buffers import YAML
from worldsize.lsp.cursor import Cursor
from worldsize.lsp.names import Names

_MOST = 200  # entries of a folder
_SCRIPTS = (".py", ".sh")
_LAUNCHER = re.compile(
    r"""(?:^|[\s/"'])(?:python[\d.]*|bash|sh|torchrun|deepspeed|accelerate launch)[ \t]+\Z"""
)
_LAST_WORD = re.compile(r"[^\s\"'=]*\Z")
_ENDINGS = {"uses": YAML, "component": YAML, "trial": YAML, "code": (), "conda_file": YAML}


def complete_path(names: Names, cursor: Cursor) -> Iterator[types.CompletionItem]:
    """The files and folders that a value may name, relative to the document."""
    key = str(cursor.path[-1]) if cursor.path else ""
    if key in _ENDINGS and (cursor.typed.startswith((".", "/")) or (key == "code" and not cursor.typed)):
        no_components = (f"./{Path(names.path).name}", *(f"./{name}" for name in SETTINGS))
        for item in _list_entries(
            Path(names.path).parent, cursor.typed or "./", _ENDINGS[key], key == "code"
        ):
            if item.label not in no_components:
                yield item


def complete_script(names: Names, cursor: Cursor, line: str) -> tuple[list[types.CompletionItem], int]:
    """The scripts in `code:` after a launcher in a command, and the length of the word that is typed.

    ``line`` is the line up to the cursor.
    """
    match = _LAST_WORD.search(line)
    word = match.group() if match is not None else ""
    if not _LAUNCHER.search(line[: len(line) - len(word)]):
        return [], 0
    folder = Path(names.path).parent
    code = names.outline.value(*cursor.path[:-1], "code")
    place = local_path(code, folder) if code else folder
    return list(_list_entries(place, word, _SCRIPTS, False)) if place is not None else [], len(word)


def _list_entries(
    folder: Path, typed: str, endings: tuple[str, ...], only_folders: bool
) -> Iterator[types.CompletionItem]:
    """The entries of the folder that a typed path leads to; folders go on with a slash."""
    start = typed[: typed.rfind("/") + 1]
    place = folder if start in ("", "./") else local_path(start, folder)
    if place is None:
        return
    try:
        entries = sorted(each.name for each in place.iterdir())
    except (OSError, ValueError):
        return
    for name in [each for each in entries if not each.startswith((".", "__"))][:_MOST]:
        is_folder = not is_file(place / name)
        if is_folder or (not only_folders and name.lower().endswith(endings)):
            kind = types.CompletionItemKind.Folder if is_folder else types.CompletionItemKind.File
            text = f"{start}{name}{'/' if is_folder and not only_folders else ''}"
            yield types.CompletionItem(text, kind=kind)
