"""Every rank saves a file or logs a metric."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from worldsize.base.problem import Finding
from worldsize.facts.library_calls import find_call
from worldsize.rules.context import Context
from worldsize.rules.script.no_process_group import is_without_group
from worldsize.scripts.edits import guard_by_rank
from worldsize.scripts.guards import is_guarded_by_rank
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import mentions_rank

_SHARDED = ("FullyShardedDataParallel", "fully_shard", "distributed.checkpoint", "FSDP")


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or not program.is_own_loop or program.says(*_SHARDED):
        return
    if is_without_group(program):
        return  # that is the cause
    keras = (("saves its checkpoints here", _checkpoints),) if program.imports("horovod") else ()
    for what, chosen in (("saves this file", _saves), ("logs this", _logs), *keras):
        saves = program.entry.once(_unguarded, program.modules, chosen)
        if saves:
            module, call = saves[0]
            more = f" (and {len(saves) - 1} more such calls)" if len(saves) > 1 else ""
            message = f"every rank {what}{more}"
            help_ = "put it under `if rank == 0:`"
            fix = guard_by_rank(program, module, call)
            yield Finding(module.span(call), message, help_, related=program.related, fix=fix)


def _unguarded(
    _entry: Module, modules: tuple[Module, ...], chosen: Callable[[str], bool]
) -> list[tuple[Module, ast.Call]]:
    """The calls of some names that every rank reaches."""
    return [
        (module, call)
        for module in modules
        for name, call in module.calls
        if chosen(name) and not _apart(module, name, call) and not is_guarded_by_rank(modules, module, call)
    ]


def _saves(name: str) -> bool:
    return find_call(name, "saves_once") is not None


def _checkpoints(name: str) -> bool:
    return name.endswith("keras.callbacks.ModelCheckpoint")


def _logs(name: str) -> bool:
    return name.startswith("mlflow.") and name.rpartition(".")[2].startswith(("log_", "save_model"))


def _apart(module: Module, name: str, call: ast.Call) -> bool:
    """Whether the path that a call writes to contains the rank."""
    parts: list[ast.AST] = [*call.args[_saves(name) :], *(one.value for one in call.keywords)]
    return any(mentions_rank(module, part) for part in parts)
