"""Join the process group that the launcher describes, and leave it at the end."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator

from msgspec import Struct

from worldsize.adopting.script import Script
from worldsize.rules.script._module import speaks_of_main

MARK = "One process per GPU: the launcher sets these variables; by hand there is one process."
_NAMED = re.compile(r"\btorch\.distributed as dist\b")
_CALLED = re.compile(
    r"\bdist\.(?=(?:init_process_group|destroy_process_group|is_initialized|barrier|all_reduce"
    r"|broadcast_object_list)\b)"
)
_SETTINGS = ("matplotlib.use", "warnings.", "sys.path", "os.environ")
_LEAVE = "the processes end together, and the group with them"
# A thread of Gloo that frees its last tensor while Python ends aborts the process. It needs a moment before.
_WAIT = "atexit.register(time.sleep, 0.5)  # Gloo's threads free their tensors before Python ends"
# `DistributedDataParallel` imports it. Defaults of its functions would keep the group, and Gloo's threads.
_EARLY = "import torch.distributed.nn  # before there is a group, which it would keep until Python ends"
_IMPORTED = "what the added lines import"
_Key = tuple[int, bool, str]
_TESTS = ("sys.exit", "exit", "typer.run", "fire.Fire", "app")


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


def join_group(script: Script, header: Header, places: list[ast.AST], model: str | None = None) -> None:
    """Join before any of the places that need the group, and leave it at the end.

    Args:
        script: The script.
        header: What is added to it.
        places: What needs the group.
        model: The variable of the file with the wrapped model, which holds the group.
    """
    header.imports["import torch.distributed as dist"] = None
    main = find_main(script)
    join = [
        _EARLY,
        "if torch.cuda.is_available():",
        f"    torch.cuda.set_device({header.names.local_rank})",
        'dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")',
    ]
    if not header.on_gpu:
        join = [_EARLY, 'dist.init_process_group("gloo")']
    reason = "the processes join the group of the launcher, each on a GPU of its own"
    early = main is None or any(not _is_inside(script, place, main) for place in places)
    if early:
        header.group += join
    else:
        assert main is not None
        script.insert_before(main.body[0], join, "WS901", reason)
    last, ends = _find_end(script)
    if not ends:
        release = [f"del {model}"] if model is not None else []
        lines = ["dist.barrier()", *release, "dist.destroy_process_group()"]
        script.insert_after(last, lines, None, _LEAVE)
        return
    _leave_at_exit(script, header, "dist.destroy_process_group", early=early)


def _leave_at_exit(script: Script, header: Header, leave: str, *, early: bool) -> None:
    """Leave the group where the program ends in the middle of a line: ``sys.exit(main())``."""
    header.imports["import atexit"] = None
    taken = is_taken(script, "time", "time")
    header.imports["import threading" if taken else "import time"] = None
    wait = _WAIT.replace("time.sleep", "threading.Event().wait") if taken else _WAIT
    lines = [f"atexit.register({leave})", wait]  # what is registered last runs first
    main = find_main(script)
    if early or main is None:
        header.group += lines
    else:
        script.insert_before(main.body[0], lines, None, _LEAVE)


def is_taken(script: Script, name: str, full: str) -> bool:
    """Whether the script calls something else by a name that the added lines use for a module."""
    bound = script.module.names.get(name)
    return name in script.names and (bound != full or bool(script.module.stores(name)))


def leave_group(script: Script, header: Header) -> None:
    """End the group that a library has joined: a process that exits before the others may crash them."""
    last, ends = _find_end(script)
    if script.module.called("destroy_process_group", "end_training"):
        return
    header.imports["import torch.distributed as dist"] = None
    if ends or not script.has_own_line(last):
        leave = "lambda: dist.is_initialized() and dist.destroy_process_group()"
        _leave_at_exit(script, header, leave, early=False)
        return
    lines = ["if dist.is_initialized():", "    dist.barrier()", "    dist.destroy_process_group()"]
    script.insert_after(last, lines, None, _LEAVE)


def _find_end(script: Script) -> tuple[ast.stmt, bool]:
    """The last statement that runs, and whether it ends the program."""
    main = find_main(script)
    last = main.body[-1] if main is not None else script.module.tree.body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    return last, isinstance(call, ast.Call) and _ends_program(script, call)


def find_main(script: Script) -> ast.If | None:
    """``if __name__ == "__main__":`` of the file."""
    speaking = script.module.once(speaks_of_main)
    found = [node for node in script.module.tree.body if isinstance(node, ast.If) and node.test in speaking]
    return found[-1] if found else None


def _is_inside(script: Script, place: ast.AST, main: ast.If) -> bool:
    """Whether a place runs only from ``main``: it lies in it or in a function."""
    for above, _ in script.module.ancestors(place):
        if above is main or isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            return True
    return False


def _ends_program(script: Script, call: ast.Call) -> bool:
    if script.module.name_of(call.func) in _TESTS:
        return True
    name = getattr(call.func, "id", "")
    apps = script.module.called("typer.Typer", "Typer")
    if any(script.written(each) == name for app in apps for each in _list_targets(script, app)):
        return True
    functions = [node for node in script.module.kinds.get(ast.FunctionDef, ()) if node.name == name]
    return any("click" in ast.unparse(each) for node in functions for each in node.decorator_list)


def _list_targets(script: Script, value: ast.expr) -> list[ast.expr]:
    """What an expression is assigned to."""
    statement = script.module.parents.get(value)
    return statement.targets if isinstance(statement, ast.Assign) else []


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
    for statement in script.module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and script.has_own_line(statement):
            known.append((_find_key(statement), statement))
        if statement is last:
            break
    keyed = sorted((_find_key(ast.parse(line).body[0]), line) for line in lines)
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


def _find_key(statement: ast.stmt) -> _Key:
    """The section of an import, -1 for what has to stay in front, and its place there."""
    whole = isinstance(statement, ast.Import)
    names = statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else []
    module = getattr(statement, "module", None) or names[0].name
    top = module.partition(".")[0]
    section = -1 if top == "__future__" else 0 if top in sys.stdlib_module_names else 1
    return section, not whole, module.lower()
