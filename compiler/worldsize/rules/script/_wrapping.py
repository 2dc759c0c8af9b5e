"""The order in which a model is moved, wrapped and changed, and its optimizer is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec.structs import replace

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Problem, Related
from worldsize.facts.library_calls import list_last_names
from worldsize.scripts.definitions import define_alone
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_assigned, find_block
from worldsize.scripts.module import Module, constant_value, find_mentions, keyword_argument, name_variable
from worldsize.scripts.program import Program
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import find_single

_MOVES = ("cuda", "to", "to_empty")
_Fault = tuple[Problem, ast.AST]


def check_program(context: Tree, program: Program) -> Iterator[Problem]:
    if program.processes < 2:
        return
    runs = read_reached(program).runs
    for module in program.modules:
        wrapped_elsewhere = _judge_helpers(read_reached(program), module)
        for problem, node in [*module.once(_judge), *wrapped_elsewhere]:
            if runs(module, node):
                yield replace(problem, related=(*problem.related, *program.related))


def _judge(module: Module) -> list[_Fault]:
    return [*_judge_optimizers(module), *_judge_ddp(module)]


def _judge_optimizers(module: Module) -> Iterator[_Fault]:
    """Optimizers that hold the parameters from before they are sharded."""
    for call in module.called(*list_last_names("shards_model")):
        if call.args and constant_value(keyword_argument(call, "use_orig_params")) is not True:
            yield from _judge_wrap(module, call, call.args[0])


def _judge_helpers(reached: Reached, module: Module) -> Iterator[_Fault]:
    """The same for a function of the scripts that shards its parameter."""
    helpers = [
        (function.name, position)
        for other in reached.modules
        for function, position in other.once(_list_helpers)
    ]
    for name, position in helpers:
        for call in module.called(name):
            if len(call.args) > position and len(reached.find(module, call.func)) == 1:
                yield from _judge_wrap(module, call, call.args[position])


def _list_helpers(module: Module) -> list[tuple[ast.FunctionDef, int]]:
    """The functions that shard one of their parameters, with its position."""
    helpers: list[tuple[ast.FunctionDef, int]] = []
    for call in module.called(*list_last_names("shards_model")):
        scope, first = find_block(module, call), call.args[0] if call.args else None
        if isinstance(scope, ast.FunctionDef) and isinstance(first, ast.Name):
            names = [parameter.arg for parameter in scope.args.args]
            keeps = constant_value(keyword_argument(call, "use_orig_params")) is True
            if first.id in names and not keeps:
                helpers.append((scope, names.index(first.id)))
    return helpers


def _judge_wrap(module: Module, call: ast.Call, sharded: ast.expr) -> Iterator[_Fault]:
    model, scope = name_variable(sharded), find_block(module, call)
    for name, maker in module.calls if model else ():
        if ".optim." not in name or not maker.args or find_block(module, maker) is not scope:
            continue
        single = find_single(define_alone(module), module, maker.args[0])
        groups = maker.args[0] if single is None else single[1]
        if not _holds_parameters(groups, model) or maker.lineno >= call.lineno:
            continue
        if _excludes(module, maker, call) or _is_made_again(module, maker, call):
            continue
        wrapper = module.name_of(call.func).rpartition(".")[2]
        message = f"this optimizer holds the parameters of `{model}` from before `{wrapper}` replaces them"
        help_ = f"create the optimizer after `{wrapper}`, else it never updates the sharded parameters"
        related = (Related(module.span(call), "replaced here"),)
        yield Problem("optimizer-before-sharding", module.span(maker), message, help_, related), maker


def _holds_parameters(groups: ast.AST, model: str) -> bool:
    """Whether the argument of an optimizer contains ``model.parameters()``."""
    functions = [inner.func for inner in ast.walk(groups) if isinstance(inner, ast.Call)]
    return any(
        name_variable(function) in (f"{model}.parameters", f"{model}.named_parameters")
        for function in functions
    )


def _excludes(module: Module, first: ast.AST, second: ast.AST) -> bool:
    """Whether two nodes stand in different branches of one condition, so that only one of them runs."""
    branches = {above: child for above, child in module.ancestors(first) if isinstance(above, ast.If)}
    for above, child in module.ancestors(second):
        if isinstance(above, ast.If) and above in branches:
            return (child in above.body) != (branches[above] in above.body)
    return any(isinstance(above, ast.If) and isinstance(above.body[-1], ast.Return) for above in branches)


def _is_made_again(module: Module, maker: ast.Call, wrap: ast.Call) -> bool:
    statement = module.parents.get(maker)
    targets = {*map(name_variable, statement.targets)} if isinstance(statement, ast.Assign) else set()
    return any(
        node.lineno > wrap.lineno and (targets - {""}) & {*map(name_variable, node.targets)}
        for node in module.kinds.get(ast.Assign, ())
    )


def _judge_ddp(module: Module) -> Iterator[_Fault]:
    """Report changes to a model after DDP wrapped it."""
    for wrapped, statement, call in find_assigned(module, "DistributedDataParallel"):
        target, scope = statement.targets[0], find_block(module, call)
        if len(statement.targets) == 1 and isinstance(target, ast.Name | ast.Attribute) and call.args:
            yield from _judge_move(module, call, wrapped, scope)
            yield from _judge_changes(module, call, wrapped, scope)


def _judge_move(module: Module, wrap: ast.Call, wrapped: str, scope: ast.AST) -> Iterator[_Fault]:
    model = name_variable(wrap.args[0])
    moves = [
        (name_variable(call.func.value), call)
        for name in _MOVES
        for _, call in module.callers.get(name, ())
        if isinstance(call.func, ast.Attribute) and find_block(module, call) is scope
    ]
    if not model or module.called("set_default_device", "set_default_tensor_type"):
        return
    before = [call for _, call in moves if call.lineno <= wrap.lineno]
    after = [
        call
        for owner, call in moves
        if owner == wrapped and call.lineno > wrap.lineno and _moves_to_gpu(module, call)
    ]
    moved_before = [call for call in before if _touches(module, call, model)]
    built = [
        node.value
        for node in module.kinds.get(ast.Assign, ())
        if find_block(module, node) is scope
        and node.lineno < wrap.lineno
        and model in map(name_variable, node.targets)
    ]
    on_cpu = any(
        isinstance(value, ast.Call) and not any(one.arg == "device" for one in value.keywords)
        for value in built
    )
    in_context = any(isinstance(above, ast.With) for above, _ in module.ancestors(wrap))
    if after and on_cpu and not moved_before and not in_context:
        message = (
            f"`{model}` is wrapped while its parameters are on the CPU, and moved to the GPU only afterwards"
        )
        help_ = f"write `{ast.unparse(after[0])[:60]}` before `DistributedDataParallel`"
        related = (Related(module.span(after[0]), "moved here"),)
        yield Problem("changed-after-wrap", module.span(wrap), message, help_, related), wrap


def _moves_to_gpu(module: Module, call: ast.Call) -> bool:
    """Whether a call moves to a GPU: not to the CPU, and not only to another type, as ``.to(torch.half)``."""
    if module.name_of(call.func).endswith(".cuda"):
        return True
    target = keyword_argument(call, "device") or next(iter(call.args), None)
    is_type = isinstance(target, ast.Attribute) and (
        target.attr == "dtype" or module.name_of(target).startswith("torch.")
    )
    return target is not None and not is_type and "cpu" not in find_mentions(target)


def _touches(module: Module, call: ast.Call, model: str) -> bool:
    """Whether a call moves the model: by its name, or in the statement that sets it."""
    if isinstance(call.func, ast.Attribute) and f"{name_variable(call.func.value)}.".startswith(f"{model}."):
        return True
    for above, _ in module.ancestors(call):
        if isinstance(above, ast.Assign):
            return model in map(name_variable, above.targets)
        if isinstance(above, ast.stmt):
            return False
    return False


def _judge_changes(module: Module, wrap: ast.Call, wrapped: str, scope: ast.AST) -> Iterator[_Fault]:
    """Changes that the reducer of DDP, made when it wrapped the model, does not see."""
    related = (Related(module.span(wrap), "wrapped here"),)

    def report(node: ast.AST, what: str, help_: str) -> _Fault:
        message = f"{what} after `DistributedDataParallel` has wrapped the model, which does not see it"
        return Problem("changed-after-wrap", module.span(node), message, help_, related), node

    later = [
        node
        for kind in (ast.Call, ast.Assign)
        for node in module.kinds.get(kind, ())
        if node.lineno > wrap.lineno and find_block(module, node) is scope
    ]
    for node in later:
        if isinstance(node, ast.Assign):
            text = name_variable(node.targets[0])
            calls = [inner for inner in ast.walk(node.value) if isinstance(inner, ast.Call)]
            makes = node.value in calls and any(".nn." in f".{module.name_of(inner.func)}" for inner in calls)
            if text.startswith(f"{wrapped}.module.") and makes:
                yield report(node, f"`{text}` is replaced", "replace the layer before the model is wrapped")
        elif module.name_of(node.func).endswith(".convert_sync_batchnorm") and node.args:
            names = (wrapped, f"{wrapped}.module")
            if name_variable(node.args[0]) in names:
                yield report(node, "the normalisation is replaced", "convert the model before it is wrapped")
        if _freezes(module, node, wrapped) and _trains_later(module, node, scope):
            yield report(node, "`requires_grad` is changed", "freeze parameters before the model is wrapped")


def _freezes(module: Module, node: ast.Assign | ast.Call, wrapped: str) -> bool:
    """Whether a statement or call changes which parameters of the model are trained."""
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        return getattr(target, "attr", "") == "requires_grad" and _is_of(module, target, wrapped)
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "requires_grad_":
        return False
    owner = name_variable(node.func.value)
    return f"{owner}.".startswith(f"{wrapped}.") or _is_of(module, node.func, wrapped)


def _trains_later(module: Module, node: ast.AST, scope: ast.AST) -> bool:
    """Whether a loop that may train follows, or has the node inside."""
    line = getattr(node, "lineno", 0)
    return any(
        find_block(module, loop) is scope
        and loop.end_lineno > line
        and not any("parameters" in word for word in find_mentions(loop.iter))
        for loop in module.kinds.get(ast.For, ())
    )


def _is_of(module: Module, node: ast.AST, wrapped: str) -> bool:
    """Whether ``parameter.requires_grad`` is of a loop over the parameters of the wrapped model."""
    name = name_variable(node.value) if isinstance(node, ast.Attribute) else ""
    return name.startswith(f"{wrapped}.") or any(
        isinstance(above, ast.For)
        and name in find_mentions(above.target)
        and name_variable(getattr(above.iter, "func", above.iter)).startswith(f"{wrapped}.")
        for above, _ in module.ancestors(node)
    )
