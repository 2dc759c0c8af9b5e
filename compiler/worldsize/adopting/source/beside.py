"""The modules beside a script that run with it: those that it imports, and those that they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from worldsize.adopting.source.reading import read_beside
from worldsize.scripts.module import Module

_MOST = 200  # more are no code of one's own


def list_imported_beside(module: Module) -> tuple[tuple[Module, ast.stmt], ...]:
    """Each of these modules, parsed, with the import of the script that leads to it."""
    return module.once(_follow)


def read_with_beside(module: Module) -> tuple[Module, ...]:
    """The script and these modules."""
    return (module, *(each for each, _ in list_imported_beside(module)))


def _follow(module: Module) -> tuple[tuple[Module, ast.stmt], ...]:
    script = Path(module.source.path)
    folders = _list_folders(script)
    seen = {script}
    found: list[tuple[Module, ast.stmt]] = []
    waiting = [(path, statement) for path, statement in _list_files(module, folders)]
    while waiting and len(found) < _MOST:
        path, statement = waiting.pop(0)
        read = read_beside(path) if path not in seen else None
        seen.add(path)
        if read is not None:
            found.append((read, statement))
            waiting += [(inner, statement) for inner, _ in _list_files(read, folders)]
    return tuple(found)


def _list_folders(script: Path) -> list[Path]:
    """The folder of the script, and those around its package."""
    folders = [script.parent]
    while (folders[-1] / "__init__.py").is_file() and folders[-1].name:
        folders.append(folders[-1].parent)
    return folders


def _list_files(module: Module, folders: Sequence[Path]) -> Iterator[tuple[Path, ast.stmt]]:
    """The files that the imports of a module run: the module itself, and its packages before it."""
    own = Path(module.source.path)
    for full, level, statement in module.imports:
        parts = full.split(".")
        for folder in folders if not level else own.parents[level - 1 : level]:
            for length in range(1, len(parts) + 1):
                below = folder.joinpath(*parts[:length])
                files = (below / "__init__.py", below.with_name(f"{below.name}.py"))
                yield from ((each, statement) for each in files if each.is_file())
