"""Join the process group that the launcher describes, and leave it at the end."""

from __future__ import annotations

import ast

from worldsize.adopting.source.header import Header, is_taken
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import speaks_of_main

_LEAVE = "the processes end together, and the group with them"
# A thread of Gloo that frees its last tensor while Python ends aborts the process. It needs a moment before.
_WAIT = "atexit.register(time.sleep, 0.5)  # Gloo's threads free their tensors before Python ends"
# `DistributedDataParallel` imports it. Defaults of its functions would keep the group, and Gloo's threads.
_EARLY = "import torch.distributed.nn  # before there is a group, which it would keep until Python ends"
_TESTS = ("sys.exit", "exit", "typer.run", "fire.Fire", "app")


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
    mains = [node for node in script.module.tree.body if isinstance(node, ast.If) and node.test in speaking]
    return mains[-1] if mains else None


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
    assigned = [script.module.parents.get(app) for app in script.module.called("typer.Typer", "Typer")]
    if any(isinstance(held, ast.Assign) and name in map(script.written, held.targets) for held in assigned):
        return True
    functions = [node for node in script.nodes(ast.FunctionDef) if node.name == name]
    return any("click" in ast.unparse(decorator) for node in functions for decorator in node.decorator_list)
