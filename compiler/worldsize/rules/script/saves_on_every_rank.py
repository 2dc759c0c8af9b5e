"""A file is saved, or a metric logged, by every rank.

This is read from the text of the script and of the modules beside it that it imports; nothing is run. Any
condition on the rank around the call, around the calls of its function, or an early return counts as a
guard.

Why: Ranks write the same file at the same time and can leave half of it; metrics appear once a rank.

Bad::

    torch.save(model.state_dict(), args.output)

Good::

    if rank == 0:
        torch.save(model.state_dict(), args.output)

Fix: Put ``if rank == 0:`` around it, and a barrier behind it where other ranks read the file.

Source: PyTorch tutorials, Getting started with distributed data parallel: save and load checkpoints.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.rules.script import _ranks
from worldsize.rules.script._module import Module
from worldsize.rules.script._program import Program, checks

RULE = Rule(
    "WS904", "saves-on-every-rank", "warning", since="0.1.0", summary="saving or logging on every rank"
)
_SAVES = frozenset({"torch.save", "joblib.dump", "pickle.dump"})
_SHARDED = ("FullyShardedDataParallel", "fully_shard", "distributed.checkpoint", "FSDP")


@checks(RULE)
def check(context: Context, program: Program) -> Iterator[Problem]:
    if program.processes < 2 or not program.complete or program.says(*_SHARDED):
        return
    for what, chosen in (("saves this file", _saves), ("logs this", _logs)):
        found = program.entry.once(_unguarded, program.modules, chosen)
        if found:
            module, call = found[0]
            more = f" (and {len(found) - 1} more such calls)" if len(found) > 1 else ""
            message = f"every rank {what}{more}"
            yield RULE.problem(
                module.span(call), message, "put it under `if rank == 0:`", related=program.related
            )


def _unguarded(
    _entry: Module, modules: tuple[Module, ...], chosen: Callable[[str], bool]
) -> list[tuple[Module, ast.Call]]:
    """The calls of some names that every rank reaches."""
    return [
        (module, call)
        for module in modules
        for name, call in module.calls
        if chosen(name) and not _apart(module, name, call) and not _ranks.guarded(modules, module, call)
    ]


def _saves(name: str) -> bool:
    return name in _SAVES or name.endswith(".save_pretrained")


def _logs(name: str) -> bool:
    return name.startswith("mlflow.") and name.rpartition(".")[2].startswith(("log_", "save_model"))


def _apart(module: Module, name: str, call: ast.Call) -> bool:
    """Whether the place it writes to has the rank in its name."""
    parts: list[ast.AST] = [*call.args[_saves(name) :], *(one.value for one in call.keywords)]
    return any(_ranks.speaks_of_rank(module, part) for part in parts)
