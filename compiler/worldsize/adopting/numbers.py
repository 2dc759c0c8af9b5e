"""The numbers that the plan sets: batch size, learning rate and epochs."""

from __future__ import annotations

import ast

from worldsize.adopting.flags import Parser, set_by_flag
from worldsize.adopting.script import Script
from worldsize.adopting.tracing import Tracer
from worldsize.adopting.training import is_optimizer
from worldsize.rules.script._module import constant_value, keyword_argument


def set_loader(script: Script, tracer: Tracer, parser: Parser, loader: ast.Call) -> None:
    """The batch size of a data loader, which is that of one process."""
    size = keyword_argument(loader, "batch_size") or (loader.args[1] if len(loader.args) > 1 else None)
    if size is None:
        script.leave(loader, "no option sets the batch size here", "give `batch_size=` to the loader")
    else:
        set_by_flag(script, tracer, parser, "batch_size", size)


def set_optimizer(
    script: Script, tracer: Tracer, parser: Parser, optimizer: ast.Call, position: int = 1
) -> None:
    """The learning rate of an optimizer."""
    rate = keyword_argument(optimizer, "lr") or keyword_argument(optimizer, "learning_rate")
    if rate is None and len(optimizer.args) > position:
        rate = optimizer.args[position]
    if rate is None:
        script.leave(optimizer, "no option sets the learning rate here", "give the rate to the optimizer")
    else:
        set_by_flag(script, tracer, parser, "learning_rate", rate)


def set_epochs(script: Script, tracer: Tracer, parser: Parser, loop: ast.stmt | None) -> None:
    """The end of a loop over epochs."""
    for node in ast.walk(loop.iter) if isinstance(loop, ast.For) else ():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
            and node.args
        ):
            set_by_flag(script, tracer, parser, "epochs", node.args[min(1, len(node.args) - 1)])
            return


def find_loader(script: Script) -> ast.Call | None:
    """The loader of the training rows in a script whose library has the loop: the one that shuffles."""
    loaders = script.module.called("DataLoader")
    drawn = [
        call
        for call in loaders
        if (keyword_argument(call, "shuffle") or keyword_argument(call, "sampler")) is not None
        and constant_value(keyword_argument(call, "shuffle")) is not False
    ]
    return next(iter(drawn or loaders), None)


def find_optimizer(script: Script) -> ast.Call | None:
    """The only optimizer that is made."""
    made = [call for _, call in script.module.calls if is_optimizer(script, call)]
    return made[0] if len(made) == 1 else None
