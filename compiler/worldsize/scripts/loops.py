"""Where a script trains: its loops, its optimizers, and the work of every pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.base.source import Source
from worldsize.scripts.module import (
    Module,
    constant_value,
    keep,
    keyword_argument,
    name_variable,
    parse_module,
)

_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
_OPTIMIZER = re.compile(r"optim|(?:^|_)opt(?:$|_|\d)", re.IGNORECASE)


def find_loop(module: Module, node: ast.AST) -> ast.AST | None:
    """The innermost loop around a node inside of its function."""
    for above, child in module.ancestors(node):
        if isinstance(above, _LOOPS):
            return None if child in (getattr(above, "iter", None), getattr(above, "target", None)) else above
        if isinstance(above, _SCOPES):
            return None
    return None


def find_block(module: Module, node: ast.AST) -> ast.AST:
    """The function around a node, or its file."""
    return next((above for above, _ in module.ancestors(node) if isinstance(above, _SCOPES)), module.tree)


def list_conditions(module: Module, node: ast.AST) -> list[ast.If]:
    """The conditions on the way to a node, inside its loop and function."""
    conditions: list[ast.If] = []
    for above, child in module.ancestors(node):
        if isinstance(above, (*_LOOPS, *_SCOPES)):
            break
        if isinstance(above, ast.If) and child is not above.test:
            conditions.append(above)
    return conditions


def list_backward_calls(module: Module) -> list[ast.Call]:
    """``loss.backward()``; not the method of an engine or accelerator, which takes the loss."""
    return [
        call
        for _, call in module.callers.get("backward", ())
        if isinstance(call.func, ast.Attribute) and not call.args
    ]


@keep
def _list_optimizers(module: Module) -> set[str]:
    """The names of the optimizers in a file, such as ``optimizer`` or ``self.optimizer``."""
    names = {
        name_variable(target)
        for node in module.kinds.get(ast.Assign, ())
        if isinstance(node.value, ast.Call)
        and ".optim." in f".{module.name_of(node.value.func)}"
        and "lr_scheduler" not in module.name_of(node.value.func)
        for target in node.targets
    }
    words = {node.id for node in module.kinds.get(ast.Name, ())} | {
        node.arg for node in module.kinds.get(ast.arg, ())
    }
    names |= {word for word in words if _OPTIMIZER.search(word) and "sched" not in word.lower()}
    return names | {
        f"self.{node.attr}" for node in module.kinds.get(ast.Attribute, ()) if _OPTIMIZER.search(node.attr)
    }


def list_steps(module: Module) -> list[tuple[str, ast.Call]]:
    """Each call that applies gradients, with the optimizer: ``opt.step()``, ``scaler.step(opt)``."""
    steps = [
        (name_variable(call.args[0] if call.args else call.func.value), call)
        for _, call in module.callers.get("step", ())
        if isinstance(call.func, ast.Attribute)
    ]
    return [step for step in steps if step[0] in _list_optimizers(module)]


def counts_passes(module: Module, test: ast.AST) -> bool:
    """Whether a condition holds in every n-th pass: ``(i + 1) % n == 0``, also by a variable."""
    counting = _list_counting(module)
    return _takes_remainder(test) or any(
        isinstance(node, ast.Name) and node.id in counting for node in ast.walk(test)
    )


def _takes_remainder(node: ast.AST) -> bool:
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in ast.walk(node))


@keep
def _list_counting(module: Module) -> set[str]:
    return {
        target.id
        for node in module.kinds.get(ast.Assign, ())
        if _takes_remainder(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def find_assigned(module: Module, *endings: str) -> Iterator[tuple[str, ast.Assign, ast.Call]]:
    """The variables and attributes that calls of these names are assigned to."""
    for call in module.called(*endings):
        statement = module.parents.get(call)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                first = target.elts[0] if isinstance(target, ast.Tuple | ast.List) and target.elts else target
                if name := name_variable(first):
                    yield name, statement, call


def list_prepared(modules: tuple[Module, ...]) -> set[str] | None:
    """The variables passed to ``accelerator.prepare(…)``; None if it also takes ``*others``."""
    arguments = [
        argument
        for module in modules
        for _, call in module.callers.get("prepare", ())
        for argument in call.args
    ]
    starred = any(isinstance(argument, ast.Starred) for argument in arguments)
    return None if starred else {name_variable(argument) for argument in arguments}


_MOST_WORKERS = 256


def count_loader_workers(text: str, option: re.Pattern[str]) -> int | None:
    """The workers that each loader of a script has by default; None if the script alone does not tell.

    ``option`` matches the names of the options that say it, which argparse, click or typer declares.
    """
    module = parse_module(Source("", text)) if "DataLoader" in text else None
    if module is None:
        return None
    declared = [
        keyword_argument(call, "default")
        for call in module.called("add_argument", "option", "Option")
        if any(option.fullmatch(str(constant_value(word))) for word in call.args)
    ]
    counts = {_read_workers(value) for value in declared} or {
        0
        if all(word.arg not in (None, "num_workers") for word in call.keywords)
        else _read_workers(keyword_argument(call, "num_workers"))
        for call in module.called("DataLoader")
    }
    return counts.pop() if len(counts) == 1 else None


def _read_workers(node: ast.AST | None) -> int | None:
    value = constant_value(node)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_WORKERS:
        return value
    return None
