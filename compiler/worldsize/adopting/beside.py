"""The modules beside a script that it imports: read, never edited."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from worldsize.base.source import Source
from worldsize.rules.script._module import Module, parse_module


def list_modules_beside(module: Module) -> Iterator[tuple[str, ast.stmt, Path]]:
    """The imports of modules in the script's folder: name, statement, file."""
    folder = Path(module.source.path).parent
    for full, _, statement in module.imports:
        for name in (full, full.rpartition(".")[0]):  # `from name import function`
            below = folder / name.replace(".", "/")
            files = (Path(f"{below}.py"), below / "__init__.py") if name else ()
            path = next((each for each in files if each.is_file()), None)
            if path is not None:
                yield name, statement, path
                break


def read_beside(path: Path) -> Module | None:
    """The parsed module; None if it is no Python."""
    try:
        return parse_module(Source(str(path), path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return None


def find_loader_function(module: Module, called: str) -> tuple[Module, ast.FunctionDef] | None:
    """The function beside the script that makes a `DataLoader`, by its full name in the script."""
    for name, _, path in list_modules_beside(module):
        if called.rpartition(".")[0] != name:
            continue
        found = read_beside(path)
        for node in found.kinds.get(ast.FunctionDef, ()) if found is not None else ():
            if found is not None and node.name == called.rpartition(".")[2]:
                inner = {id(each) for each in ast.walk(node)}
                if any(id(call) in inner for call in found.called("DataLoader")):
                    return found, node
    return None
