"""Each process decides by its own loss whether it trains on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.definitions import define_alone
from worldsize.scripts.guards import is_guarded_by_rank, read_side
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_block, list_backward_calls
from worldsize.scripts.module import Module, find_mentions
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import mentions_rank

_AGREES = (
    "all_reduce", "reduce", "broadcast", "broadcast_object_list", "all_gather", "all_gather_object", "gather",
    "allreduce", "allgather", "barrier", "Join", "join",
)  # fmt: skip
_LEAVES = (ast.Break, ast.Continue, ast.Return)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or not program.complete or program.refers(*_AGREES):
        return
    if not program.refers("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"):
        return
    for module in program.modules:
        for node in module.once(_find_stops):
            alone = is_guarded_by_rank(program.modules, module, node)
            if read_reached(program).runs(module, node) and not alone:
                message = (
                    "each process decides this by its own loss: if they differ, some wait forever for others"
                )
                if read_side(read_reached(program), module, node.test) == "first":
                    message = "only the first process leaves the loop here: the others wait forever for it"
                help_ = "average the value first with `dist.all_reduce`, so that all processes decide alike"
                yield Finding(module.span(node.test), message, help_, related=program.related)
                return


def _find_stops(module: Module) -> list[ast.If]:
    """Conditions on the loss of this process that leave a loop which trains."""
    conditions: list[ast.If] = []
    for scope in {find_block(module, call) for call in list_backward_calls(module)}:
        backward = [call for call in list_backward_calls(module) if find_block(module, call) is scope]
        differing = _find_own(module, scope, backward)
        for node in module.kinds.get(ast.If, ()):
            if find_block(module, node) is not scope or not differing & {*find_mentions(node.test)}:
                continue
            loop = next(
                (above for above, _ in module.ancestors(node) if isinstance(above, ast.For | ast.While)), None
            )
            trains = loop is not None and any(
                above is loop for call in backward for above, _ in module.ancestors(call)
            )
            before = isinstance(node.body[-1], ast.Continue) and node.lineno > min(
                call.lineno for call in backward
            )
            if (
                trains
                and isinstance(node.body[-1], _LEAVES)
                and not before
                and (
                    not mentions_rank(module, node.test)
                    or read_side(define_alone(module), module, node.test) == "first"
                )
            ):
                conditions.append(node)
    return conditions


def _find_own(module: Module, scope: ast.AST, backward: list[ast.Call]) -> set[str]:
    """The variables of a function that differ from process to process: the loss, and what follows from it."""
    losses = [call.func.value for call in backward if isinstance(call.func, ast.Attribute)]
    losses += [loss.args[0] for loss in losses if isinstance(loss, ast.Call) and len(loss.args) == 1]
    differing = {loss.id for loss in losses if isinstance(loss, ast.Name)}
    if any(mentions_rank(module, call) for call in module.called("manual_seed")):
        reading = module.around(call for _, call in module.callers.get("item", ()))
        differing |= {
            target.id
            for node in module.kinds.get(ast.Assign, ())
            if find_block(module, node) is scope and node.value in reading
            for target in node.targets
            if isinstance(target, ast.Name)
        }
    for _ in range(3):
        for node in (*module.kinds.get(ast.Assign, ()), *module.kinds.get(ast.AugAssign, ())):
            if find_block(module, node) is not scope:
                continue
            decided = any(
                isinstance(above, ast.If) and differing & {*find_mentions(above.test)}
                for above, _ in module.ancestors(node)
            )
            if decided or differing & {*find_mentions(node.value)}:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                differing |= {
                    inner.id
                    for target in targets
                    for inner in ast.walk(target)
                    if isinstance(inner, ast.Name)
                }
    return differing
