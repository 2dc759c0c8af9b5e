"""What is added behind the imports of a script: which process this is, functions, options, the group."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Collection, Iterator

from msgspec import Struct

from worldsize.adopting.source.reading import read_beside
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import parse_text

MARK = "One process per GPU: the launcher sets these variables; by hand there is one process."
_NAMED = re.compile(r"\btorch\.distributed as dist\b")
_CALLED = re.compile(
    r"\bdist\.(?=(?:init_process_group|destroy_process_group|is_initialized|barrier|all_reduce"
    r"|broadcast_object_list)\b)"
)


class Names(Struct, frozen=True):
    """What the added lines call things."""

    rank: str
    local_rank: str
    world_size: str

    @property
    def is_first(self) -> str:
        """True on the first process."""
        return f"{self.rank} == 0"


class Header(Struct):
    """What is added behind the imports, in this order."""

    names: Names
    imports: dict[str, None] = {}
    constants: list[str] = []
    helpers: list[str] = []  # functions and classes
    flags: list[str] = []
    group: list[str] = []  # where it is joined at the top of the file
    on_gpu: bool = True  # whether it may train on a GPU


def name_ranks(script: Script) -> Names:
    """Names that the script does not use yet."""
    return Names(*map(script.new_name, ("RANK", "LOCAL_RANK", "WORLD_SIZE")))


def start_header(script: Script) -> Header:
    """The constants that tell which process this is."""
    names = name_ranks(script)
    constants = [
        f"# {MARK}",
        f'{names.rank} = int(os.environ.setdefault("RANK", "0"))',
        f'{names.local_rank} = int(os.environ.setdefault("LOCAL_RANK", "0"))',
        f'{names.world_size} = int(os.environ.setdefault("WORLD_SIZE", "1"))',
        'os.environ.setdefault("MASTER_ADDR", "127.0.0.1")',
        'os.environ.setdefault("MASTER_PORT", "0")',
    ]
    return Header(names, constants=constants)


def is_taken(script: Script, name: str, full: str) -> bool:
    """Whether the script calls something else by a name that the added lines use for a module."""
    bound = script.module.names.get(name)
    return name in script.names and (bound != full or bool(script.module.stores(name)))


def write_header(script: Script, header: Header) -> None:
    """Insert everything behind the imports."""
    _insert_header(script, header)
    if is_taken(script, "dist", "torch.distributed"):
        script.rename_added(_NAMED, "torch.distributed")
        script.rename_added(_CALLED, "torch.distributed.")


def _insert_header(script: Script, header: Header) -> None:
    place = find_last_import(script)
    if place is not None and script.edits_before(place):  # what is added there reads what the header sets
        place = find_top(script)
    imports = list(_list_missing(script, header, place))
    if place is not None:
        sort_in(script, imports, place)
    lines = list(imports) if place is None else []
    for part in (header.constants, header.flags, header.group):
        lines += ["", *part] if part else []
    for helper in header.helpers:
        lines += ["", "", *helper.splitlines()]
    if not lines:
        return
    reason = "each process knows which one it is, and what is set by flags"
    blank = _count_blank_lines(script, place) if place is not None else 0
    wanted = 2 if header.helpers else 1
    lines += [""] * max(0, wanted - blank) if place is not None or header.helpers else []
    if place is None:
        script.insert_before(first_statement(script), [*lines, ""], "WS901", reason)
        return
    script.insert_after(place, lines, "WS901", reason)


def _list_missing(script: Script, header: Header, place: ast.stmt | None) -> Iterator[str]:
    """The imports that no statement up to a place has."""
    body = script.module.tree.body
    before = [node for node in body if place is not None and node.lineno <= place.lineno]
    written = {script.written(node) for node in before if isinstance(node, ast.Import | ast.ImportFrom)}
    written |= {line for text in script.list_inserted() for line in text.splitlines()}
    early = [
        node for top in before for node in ast.walk(top) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    bound = {name.asname or name.name.partition(".")[0] for node in early for name in node.names}
    for line in header.imports:
        if line not in written and (" as " in line or line.rpartition(" ")[2] not in bound):
            yield line


def _count_blank_lines(script: Script, statement: ast.stmt) -> int:
    behind = script.text[script.end(statement) :].partition("\n")[2]
    lines = itertools.takewhile(lambda line: not line.strip(), behind.split("\n"))
    return sum(1 for _ in lines)


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
        return any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in statement.body)
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
    imports = []
    beside = read_beside(script.module).beside
    for statement in script.module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and script.has_own_line(statement):
            imports.append((_find_key(statement, beside), statement))
        if statement is last:
            break
    keyed = sorted((_find_key(parse_text(line).body[0], ()), line) for line in lines)
    opened = [line for key, line in keyed if not key[0] and all(key_before[0] for key_before, _ in imports)]
    if opened:
        first = next(statement for key, statement in imports if key[0] >= 0)
        script.insert_before(first, [*opened, ""], None, _IMPORTED)
    for key, line in keyed:
        section = [(key_before, statement) for key_before, statement in imports if key_before[0] == key[0]]
        before = [statement for key_before, statement in section if key_before <= key]
        if before:
            script.insert_after(before[-1], [line], None, _IMPORTED)
        elif section:
            script.insert_before(section[0][1], [line], None, _IMPORTED)
        elif key[0]:
            script.insert_after(last, [line], None, _IMPORTED)


def _find_key(statement: ast.stmt, beside: Collection[str]) -> _Key:
    """The section of an import, -1 for what has to stay in front, and its place there."""
    whole = isinstance(statement, ast.Import)
    names = statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else []
    module = getattr(statement, "module", None) or names[0].name
    top = module.partition(".")[0]
    is_beside = top in beside or getattr(statement, "level", 0) > 0
    section = 2 if is_beside else -1 if top == "__future__" else 0 if top in sys.stdlib_module_names else 1
    return section, not whole, module.lower()
