"""Learning rates and batches that follow the number of processes twice, or only one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.facts.library_calls import find_call
from worldsize.rules.script._refusals import list_refusals
from worldsize.scripts.definitions import Definitions
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, find_mentions, find_passed, keyword_argument, name_variable
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_read_from
from worldsize.scripts.values import list_chain

_STEPS = 4  # from a variable to the expression of its value
_REPLICAS = "num_replicas_in_sync"


def check_rate_follows_processes_twice(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2:
        return
    code = read_reached(program)
    for module in program.modules:
        totals = set(_list_totals(code, module))
        for name, call in module.calls if totals else ():
            rate = keyword_argument(call, "lr")
            if rate is None or find_call(name, "optimizes") is None:
                continue
            for home, node in list_chain(code, module, rate, _STEPS):
                factors = list(_list_factors(node))
                total = next((factor for factor in factors if name_variable(factor) in totals), None)
                count = next((factor for factor in factors if _is_count(code, home, factor)), None)
                if total is not None and count is not None:
                    shown, times = ast.unparse(total), ast.unparse(count)
                    message = f"the rate is multiplied by the processes twice: `{shown}` is made of `{times}`"
                    help_ = f"leave out `{times}`"
                    yield Finding(home.span(node), message, help_, related=program.related)
                    return


def _is_count(code: Definitions, module: Module, node: ast.AST) -> bool:
    return is_read_from(code, module, node, "world_size")


def _list_totals(code: Definitions, module: Module) -> Iterator[str]:
    """The numbers that the script itself requires to be a product with the number of processes."""
    for test, stops in list_refusals(module):
        wanted = ast.NotEq if stops else ast.Eq
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], wanted):
            continue
        for product, total in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
            is_product = isinstance(product, ast.BinOp)
            if is_product and any(_is_count(code, module, factor) for factor in _list_factors(product)):
                yield name_variable(total)


def _list_factors(node: ast.AST) -> Iterator[ast.AST]:
    """What an expression is a product of; what it is divided by does not count."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _list_factors(node.left)
        yield from _list_factors(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv):
        yield from _list_factors(node.left)
    else:
        yield node


def check_batch_not_scaled(context: Tree, program: Program) -> Iterator[Finding]:
    """A strategy divides the batches of `fit` and `distribute_dataset` by its replicas."""
    makes = program.called("MultiWorkerMirroredStrategy")
    if (
        program.processes < 2
        or not makes
        or any("from_function" in module.text for module in program.modules)
    ):
        return
    code = read_reached(program)
    rates = [
        part
        for module in program.modules
        for name, call in module.calls
        if ".optimizers." in name
        for part in (*call.args, *(keyword.value for keyword in call.keywords))
        if any(_REPLICAS in find_mentions(node) for _, node in list_chain(code, module, part, _STEPS))
    ]
    chains = [
        list(list_chain(code, module, size, _STEPS))
        for module, call in program.called("batch")
        if isinstance(call.func, ast.Attribute) and (size := find_passed(call, 0, "batch_size")) is not None
    ]
    is_scaled = any(_REPLICAS in find_mentions(node) for chain in chains for _, node in chain)
    if not rates or not chains or is_scaled:
        return
    module, node = chains[0][-1]
    message = (
        f"the learning rate is multiplied by `{_REPLICAS}`, but the global batch `{ast.unparse(node)}` is not"
    )
    help_ = (
        f"multiply both, or none: a strategy divides the batch by its {program.processes} or more replicas"
    )
    yield Finding(module.span(node), message, help_, related=program.related)
