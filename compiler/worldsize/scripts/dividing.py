"""What divides the rows of a data loader among the ranks: its sampler, or its data set."""

from __future__ import annotations

import ast
from typing import Literal

from msgspec import Struct

from worldsize.facts.library_calls import find_call
from worldsize.scripts.definitions import Definitions, find_class_named
from worldsize.scripts.module import Module, find_passed
from worldsize.scripts.ranks import mentions_rank
from worldsize.scripts.values import find_values

Verdict = Literal["divided", "whole", "unknown"]
_STEPS = 6  # from a variable to what it is made of


class Division(Struct, frozen=True):
    """Whether each rank gets a part of the rows, and the sampler that decides, if there is one."""

    verdict: Verdict
    sampler: ast.expr | None = None


def read_division(code: Definitions, module: Module, loader: ast.Call) -> Division:
    """What divides the rows of a `DataLoader`; unknown where a part of it cannot be followed."""
    if any(keyword.arg is None for keyword in loader.keywords) or any(
        isinstance(argument, ast.Starred) for argument in loader.args
    ):
        return Division("unknown")
    for position, name in ((3, "sampler"), (4, "batch_sampler")):
        sampler = find_passed(loader, position, name)
        verdict = _judge_all(code, module, sampler) if sampler is not None else "none"
        if verdict != "none":
            return Division("unknown" if verdict == "unknown" else verdict, sampler)
    rows = find_passed(loader, 0, "dataset")
    verdict = _judge_all(code, module, rows) if rows is not None else "unknown"
    return Division("unknown" if verdict == "none" else verdict)


def _judge_all(
    code: Definitions, module: Module, node: ast.AST, depth: int = _STEPS
) -> Verdict | Literal["none"]:
    """The verdict of every value of an expression; one that divides is that of a job with several ranks."""
    if isinstance(node, ast.Constant) and node.value is None:
        return "none"
    if isinstance(node, ast.Call):
        return _judge_call(code, module, node, depth)
    if mentions_rank(module, node) and not isinstance(node, ast.Name | ast.IfExp):
        return "divided"
    values = find_values(code, module, node) if depth else []
    verdicts = {
        _judge_all(code, home, value, depth - 1) if value is not home.tree else "unknown"
        for home, value in values
    }
    for verdict in ("divided", "unknown", "whole"):
        if verdict in verdicts:
            return verdict
    return "none" if verdicts else "unknown"


def _judge_call(code: Definitions, module: Module, call: ast.Call, depth: int) -> Verdict | Literal["none"]:
    name = module.name_of(call.func)
    row = find_call(name, "divides_rows", "draws_all", "takes_rows")
    parts = [*call.args, *(keyword.value for keyword in call.keywords)]
    if (row is not None and row.effect == "divides_rows") or any(
        _depends_on_rank(code, module, part) for part in parts
    ):
        return "divided"
    if row is not None and row.effect == "draws_all":
        return "whole"
    if row is not None:
        return _judge_all(code, module, parts[0], depth - 1) if parts and depth else "unknown"
    place = find_class_named(code, module, call.func)
    return "unknown" if place is None else _judge_class(code, *place, depth)


def _depends_on_rank(code: Definitions, module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether an expression speaks of ranks, or a variable in it is made of one that does."""
    if mentions_rank(module, node):
        return True
    names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)] if depth else []
    return any(
        _depends_on_rank(code, home, value, depth - 1)
        for name in names
        for home, value in find_values(code, module, name)
        if value is not home.tree
    )


def _judge_class(code: Definitions, home: Module, class_: ast.ClassDef, depth: int) -> Verdict:
    """A class of the script divides if it speaks of ranks, or a base does."""
    if mentions_rank(home, class_):
        return "divided"
    for base in class_.bases:
        name = home.name_of(base)
        if find_call(name, "divides_rows"):
            return "divided"
        above = find_class_named(code, home, base)
        if above is not None and above[1] is not class_ and depth:
            verdict = _judge_class(code, *above, depth - 1)
            if verdict != "whole":
                return verdict
        elif above is None and name not in _PLAIN:
            return "unknown"
    return "whole"


# Bases that leave it to the class which rows there are.
_PLAIN = frozenset(
    f"torch.utils.data.{name}"
    for name in (
        "Dataset",
        "Sampler",
        "BatchSampler",
        "dataset.Dataset",
        "sampler.Sampler",
        "sampler.BatchSampler",
    )
) | {"object"}


def is_random(module: Module, sampler: ast.expr | None) -> bool:
    """Whether a sampler is one that shuffles, as training does."""
    name = module.name_of(sampler.func) if isinstance(sampler, ast.Call) else ""
    return "Random" in name.rpartition(".")[2]
