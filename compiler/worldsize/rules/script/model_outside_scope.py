"""A TensorFlow model that is built outside of the scope of its strategy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding, Related
from worldsize.facts.library_calls import list_last_names
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.loops import find_block
from worldsize.scripts.module import Module, find_mentions, name_variable
from worldsize.scripts.program import Program

_HANDS_OVER = (
    "run",
    "scope",
    "experimental_set_strategy",
    "RunConfig",
    "Estimator",
    "ModelToEstimator",
    "ClusterCoordinator",
)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if not program.complete or not program.imports("tensorflow", "keras"):
        return
    runs = read_reached(program).runs
    for module in program.modules:
        makers = [call for call in module.called(*list_last_names("has_scope")) if runs(module, call)]
        if makers and not program.refers(*_HANDS_OVER) and program.refers("fit", "compile"):
            message = "nothing enters `scope()` of this strategy: the model is trained on one device"
            help_ = "build and compile the model under `with strategy.scope():`"
            yield Finding(module.span(makers[0]), message, help_, related=program.related)
            return
    for module in program.modules:
        yield from _judge_mixed(program, module)


def _judge_mixed(program: Program, module: Module) -> Iterator[Finding]:
    """A model that is compiled in the scope but was built before it."""
    scopes = [
        block
        for block in module.kinds.get(ast.With, ())
        for item in block.items
        if isinstance(item.context_expr, ast.Call)
        and module.name_of(item.context_expr.func).endswith(".scope")
        and any("strategy" in word.lower() for word in find_mentions(item.context_expr))
    ]
    inside = {id(node) for block in scopes for node in ast.walk(block)}
    for _, call in module.callers.get("compile", ()) if scopes else ():
        if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
            continue
        name, scope = call.func.value.id, find_block(module, call)
        built = [
            node
            for node in module.kinds.get(ast.Assign, ())
            if find_block(module, node) is scope
            and name in [name_variable(target) for target in node.targets]
        ]
        arguments = {arg.arg for arg in module.kinds.get(ast.arg, ())}
        if (
            len(built) != 1
            or name in arguments
            or not isinstance(built[0].value, ast.Call)
            or id(built[0]) in inside
        ):
            continue
        makes = module.name_of(built[0].value.func)
        if id(call) in inside and ("keras" in makes or makes.rpartition(".")[2] in _functions(module)):
            message = f"`{name}` is built outside of `strategy.scope()`, but compiled in it: `compile` stops"
            related = (Related(module.span(call), "compiled here"), *program.related)
            help_ = "move this line into `with strategy.scope():`"
            yield Finding(module.span(built[0]), message, help_, related=related)


def _functions(module: Module) -> set[str]:
    """The functions of the file that enter no scope themselves."""
    entering = module.around(call for _, call in module.callers.get("scope", ()))
    return {node.name for node in module.kinds.get(ast.FunctionDef, ()) if node not in entering}
