"""Write imports among those of a script, where a sorted file has them."""

from __future__ import annotations

import ast
import sys

from worldsize.adopting.script import Script

_REASON = "what the added lines import"
_Key = tuple[int, bool, str]


def sort_in(script: Script, lines: list[str], last: ast.stmt) -> None:
    """Write imports into the sections of the file up to its last: the standard library, then packages."""
    known = []
    for statement in script.module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and script.has_own_line(statement):
            known.append((_find_key(statement), statement))
        if statement is last:
            break
    first: list[str] = []
    for key, line in sorted((_find_key(ast.parse(line).body[0]), line) for line in lines):
        section = [(each, statement) for each, statement in known if each[0] == key[0]]
        before = [statement for each, statement in section if each <= key]
        if before:
            script.insert_after(before[-1], [line], None, _REASON)
        elif section:
            script.insert_before(section[0][1], [line], None, _REASON)
        elif key[0]:
            script.insert_after(last, [line], None, _REASON)
        else:
            first.append(line)
    if first:
        _open_section(script, first, [statement for key, statement in known if key[0] >= 0])


def _open_section(script: Script, lines: list[str], known: list[ast.stmt]) -> None:
    """The imports of the standard library, before those of packages."""
    script.insert_before(known[0], [*lines, ""], None, _REASON)


def _find_key(statement: ast.stmt) -> _Key:
    """The section of an import, -1 for what has to stay in front, and its place there."""
    whole = isinstance(statement, ast.Import)
    names = statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else []
    module = getattr(statement, "module", None) or names[0].name
    top = module.partition(".")[0]
    section = -1 if top == "__future__" else 0 if top in sys.stdlib_module_names else 1
    return section, not whole, module.lower()
