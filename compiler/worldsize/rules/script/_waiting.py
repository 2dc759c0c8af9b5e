"""Processes that wait for others forever: a collective operation or a decision that not all share."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Related
from worldsize.facts.library_calls import find_call, list_last_names
from worldsize.scripts.definitions import define_alone
from worldsize.scripts.guards import Side, find_guards, is_guarded_by_rank, is_local, read_side
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_assigned, find_block, list_backward_calls
from worldsize.scripts.module import Module, find_mentions, last_name, name_variable
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import mentions_rank

_METHODS = ("save_checkpoint", "state_dict")  # of an engine, a trainer or a model
_Guard = tuple[Side, Module, ast.AST, ast.AST]  # its side, and in a module the condition and what is under it
_Guarded = tuple[Module, ast.Call, str, _Guard]


def check_collective_on_one_rank(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2:
        return
    collectives = [guarded for module in program.modules for guarded in _find_guarded(program, module)]
    sides: dict[str, set[Side]] = {}
    for _, _, name, guard in collectives:
        sides.setdefault(name, set()).add(guard[0])
    said: set[ast.AST] = set()
    runs = read_reached(program).runs
    for module, call, name, (side, place, test, node) in collectives:
        if len(sides[name]) > 1 or test in said or not runs(module, call):
            continue  # with both sides each process calls it once, in a branch of its own
        said.add(test)
        who = "the first process" if side == "first" else "the other processes"
        message = f"all processes must call `{name}`, but only {who} can reach it here: they wait forever"
        related = (Related(place.span(test), "the condition"), *program.related)
        if node is not call:
            related = (Related(module.span(call), f"`{name}` is called here"), *related)
        help_ = "call it outside of the condition, and keep in there only what one process does"
        yield Finding(place.span(node), message, help_, related=related)


def _find_guarded(program: Program, module: Module) -> Iterator[_Guarded]:
    """The collectives that not every process reaches, in the file's order."""
    for name, call in sorted(module.once(_list_collectives), key=lambda pair: pair[1].lineno):
        guard = _find_guard(program, module, call)
        if guard is not None:
            yield module, call, name, guard


def _find_guard(program: Program, module: Module, node: ast.AST, depth: int = 2) -> _Guard | None:
    guards: list[_Guard] = [
        (side, module, test, node)
        for side, test in find_guards(read_reached(program), module, node)
        if program.per_instance > 1 or not is_local(test)
    ]
    if guards:
        return guards[0]
    function = find_block(module, node)
    name = getattr(function, "name", None)
    if name is None or not depth:
        return None
    find = read_reached(program).find
    uses = [
        (other, node)
        for other in program.modules
        for node in other.mentions(name)
        if isinstance(node, ast.Name | ast.Attribute)
        and any(candidate is function for _, candidate in find(other, node))
    ]
    if not all(getattr(other.parents.get(node), "func", None) is node for other, node in uses):
        return None
    above = [_find_guard(program, other, other.parents[node], depth - 1) for other, node in uses[:20]]
    if not above or len({guard and guard[0] for guard in above}) > 1:
        return None
    return above[0]


def _list_collectives(module: Module) -> list[tuple[str, ast.Call]]:
    """Calls that wait for all processes, each by its name; those of a group are for its members."""
    accelerators = {name for name, _, _ in find_assigned(module, "Accelerator")}
    engines = {name for name, _, _ in find_assigned(module, "deepspeed.initialize")}
    sharded = {name for name, _, call in find_assigned(module, "FullyShardedDataParallel")}
    uses_lightning = any("lightning" in name for name, _, _ in module.imports)
    collectives: list[tuple[str, ast.Call]] = []
    for name, call in module.calls:
        last = name.rpartition(".")[2]
        of_accelerator = find_call(f"accelerate.Accelerator.{last}", "collective") is not None
        is_method = of_accelerator or last in _METHODS
        owner = name_variable(call.func.value) if is_method and isinstance(call.func, ast.Attribute) else ""
        if (
            find_call(name, "collective")
            or (of_accelerator and (owner in accelerators or owner.endswith("accelerator")))
            or (last == "save_checkpoint" and (owner in engines or (uses_lightning and "trainer" in owner)))
            or (last == "state_dict" and (owner in sharded or _is_in_full_state(module, call)))
        ) and not _names_group(last, call):
            collectives.append((last, call))
    return collectives


def _names_group(name: str, call: ast.Call) -> bool:
    """Whether only the members of a group call it."""
    names_group = any(one.arg in ("group", "process_group", "process_set") for one in call.keywords)
    return (
        names_group
        or (name == "barrier" and bool(call.args))
        or (name == "all_reduce" and len(call.args) > 2)
    )


def _is_in_full_state(module: Module, call: ast.Call) -> bool:
    """Whether a state is read under ``FSDP.state_dict_type``."""
    items = (item for above, _ in module.ancestors(call) for item in getattr(above, "items", ()))
    return any(last_name(item.context_expr) == "state_dict_type" for item in items)


_AGREES = (
    "all_reduce", "reduce", "broadcast", "broadcast_object_list", "all_gather", "all_gather_object", "gather",
    "allreduce", "allgather", "barrier", "Join", "join",
)  # fmt: skip
_LEAVES = (ast.Break, ast.Continue, ast.Return)


def check_stop_decided_per_process(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or not program.complete or program.refers(*_AGREES):
        return
    if not program.refers(*list_last_names("wraps_model")):
        return
    for module, node in program.find(_find_stops):
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
        around, first = module.around(backward), min(call.lineno for call in backward)
        for node in module.kinds.get(ast.If, ()):
            if find_block(module, node) is not scope or not differing & {*find_mentions(node.test)}:
                continue
            loops = (above for above, _ in module.ancestors(node) if isinstance(above, ast.For | ast.While))
            before = isinstance(node.body[-1], ast.Continue) and node.lineno > first
            if next(loops, None) not in around or before or not isinstance(node.body[-1], _LEAVES):
                continue
            if not mentions_rank(module, node.test) or (
                read_side(define_alone(module), module, node.test) == "first"
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
