"""What is added behind the imports of a script: which process this is, functions, options, the group."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from msgspec import Struct

from worldsize.adopting.source.imports import find_last_import, find_top, first_statement, sort_in
from worldsize.adopting.source.script import Script

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


def start_header(script: Script) -> Header:
    """The constants that tell which process this is."""
    names = Names(*(script.new_name(each) for each in ("RANK", "LOCAL_RANK", "WORLD_SIZE")))
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
    before = [each for each in body if place is not None and each.lineno <= place.lineno]
    known = {script.written(each) for each in before if isinstance(each, ast.Import | ast.ImportFrom)}
    known |= {line for text in script.list_inserted() for line in text.splitlines()}
    early = [
        each for top in before for each in ast.walk(top) if isinstance(each, ast.Import | ast.ImportFrom)
    ]
    bound = {name.asname or name.name.partition(".")[0] for each in early for name in each.names}
    yield from (line for line in header.imports if line not in known and not _is_bound(line, bound))


def _count_blank_lines(script: Script, statement: ast.stmt) -> int:
    behind = script.text[script.end(statement) :].partition("\n")[2]
    lines = itertools.takewhile(lambda line: not line.strip(), behind.split("\n"))
    return sum(1 for _ in lines)


def _is_bound(line: str, bound: set[str]) -> bool:
    name = line.rpartition(" as ")[2] if " as " in line else line.rpartition(" ")[2]
    return name in bound and " as " not in line
