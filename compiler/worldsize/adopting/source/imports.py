"""Where a script imports, and where new imports go."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection

from worldsize.adopting.source.reading import list_modules_beside
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import parse_text

_SETTINGS = ("matplotlib.use", "warnings.", "sys.path", "os.environ")
_IMPORTED = "what the added lines import"
_Key = tuple[int, bool, str]


def find_top(script: Script) -> ast.stmt | None:
    """The last of the imports with which the file starts."""
    last = None
    for statement in script.module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            last = statement if script.has_own_line(statement) else last
        elif not _is_preparation(statement):
            break
    return last


def find_last_import(script: Script) -> ast.stmt | None:
    """The last of the imports at the top of the file, and not before that of torch."""
    last = None
    top = True
    for statement in script.module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            whole = script.has_own_line(statement)
            if whole and (top or "import torch" in ast.unparse(statement).split("\n")):
                last = statement
        elif last is not None and not _is_preparation(statement):
            top = False
    return last


def _is_preparation(statement: ast.stmt) -> bool:
    """What people put between imports: settings, ``try: import``, texts."""
    if isinstance(statement, ast.Try | ast.If):
        return any(isinstance(each, ast.Import | ast.ImportFrom) for each in statement.body)
    if isinstance(statement, ast.Assign):
        return isinstance(statement.targets[0], ast.Subscript)
    if isinstance(statement, ast.Expr):
        text = ast.unparse(statement)
        return isinstance(statement.value, ast.Constant) or text.startswith(_SETTINGS)
    return False


def first_statement(script: Script) -> ast.stmt:
    """The first statement below the text that describes the file, and what Python wants in front."""
    body = script.module.tree.body
    for statement in body:
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not text and getattr(statement, "module", None) != "__future__":
            return statement
    return body[-1]


def sort_in(script: Script, lines: list[str], last: ast.stmt) -> None:
    """Write imports into the sections of the file up to its last: the standard library, then packages."""
    known = []
    beside = {name.partition(".")[0] for name, _, _ in list_modules_beside(script.module)}
    for statement in script.module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and script.has_own_line(statement):
            known.append((_find_key(statement, beside), statement))
        if statement is last:
            break
    keyed = sorted((_find_key(parse_text(line).body[0], ()), line) for line in lines)
    opened = [line for key, line in keyed if not key[0] and all(each[0] for each, _ in known)]
    if opened:
        _open_section(script, opened, [statement for key, statement in known if key[0] >= 0])
    for key, line in keyed:
        section = [(each, statement) for each, statement in known if each[0] == key[0]]
        before = [statement for each, statement in section if each <= key]
        if before:
            script.insert_after(before[-1], [line], None, _IMPORTED)
        elif section:
            script.insert_before(section[0][1], [line], None, _IMPORTED)
        elif key[0]:
            script.insert_after(last, [line], None, _IMPORTED)


def _open_section(script: Script, lines: list[str], known: list[ast.stmt]) -> None:
    """The imports of the standard library, before those of packages."""
    script.insert_before(known[0], [*lines, ""], None, _IMPORTED)


def _find_key(statement: ast.stmt, beside: Collection[str]) -> _Key:
    """The section of an import, -1 for what has to stay in front, and its place there."""
    whole = isinstance(statement, ast.Import)
    names = statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else []
    module = getattr(statement, "module", None) or names[0].name
    top = module.partition(".")[0]
    own = top in beside or getattr(statement, "level", 0) > 0
    section = 2 if own else -1 if top == "__future__" else 0 if top in sys.stdlib_module_names else 1
    return section, not whole, module.lower()
