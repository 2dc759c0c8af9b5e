"""The command-line interface of a script: which arguments it takes, as far as its text tells."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath

from msgspec import Struct, field

from worldsize.base.problem import Related
from worldsize.scripts.module import Module

_UNKNOWN = object()
_TYPES: dict[str, object] = {"int": int, "float": float, "str": str}


class Option(Struct, eq=False):
    """One argument that a script declares. What is not known is never held against a command."""

    flags: tuple[str, ...]  # `--lr`, `-l`; empty for a positional argument
    name: str  # what the script reads it by
    module: Module
    node: ast.AST
    least: int = 1  # words that follow the flag
    most: int | None = 1  # None where there is no limit
    kind: type[int | float] | None = None  # where the words must be such numbers
    choices: tuple[object, ...] | None = None
    required: bool = False
    optional_words: bool = False  # a positional argument that may be left out
    bounds: tuple[float | None, float | None] = (None, None)  # the least and the greatest number

    @property
    def label(self) -> str:
        """The name that a message quotes: the first long flag."""
        return next((flag for flag in self.flags if flag.startswith("--")), (*self.flags, self.name)[0])

    @property
    def related(self) -> tuple[Related, ...]:
        """Where the script declares it."""
        return (Related(self.module.span(self.node), "declared here"),)


class Interface(Struct, eq=False):
    """All of them. ``closed``: there are no others."""

    options: list[Option] = field(default_factory=list)
    positionals: list[Option] = field(default_factory=list)
    closed: bool = True
    ignores_others: bool = False  # arguments that are not declared are no error
    abbreviates: bool = True  # `--learn` may mean `--learning-rate`
    commands: Mapping[str, Interface] | None = None  # by the word that chooses one; follow the positionals
    needs_command: bool = False  # such a word must be there
    kind: str = "argparse"  # or `click`, also for typer, or `fire`: whose rules hold for the words
    by_position: bool = False  # words without a flag fill the options in their order, as in fire
    certain: bool = True  # no class of a library declares some, which differ from version to version
    reads_files: bool = False  # one word may be a file with all arguments
    exclusive: list[tuple[bool, list[Option]]] = field(default_factory=list)  # whether one is required


def evaluate(module: Module, node: ast.AST | None, names: Mapping[str, object] | None = None) -> object:
    """The value of an expression of literals, of ``names`` and of constants of the module.

    Raises:
        ValueError: It is something else.
    """
    known = names or {}
    value: object = _UNKNOWN
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name) and node.id in known:
        value = known[node.id]
    elif isinstance(node, ast.Name):
        home, constant = _find_constant(module, node)
        value = _TYPES.get(node.id, _UNKNOWN) if constant is None else evaluate(home, constant)
    elif isinstance(node, ast.Attribute):
        home, constant = _find_constant(module, node)
        value = _UNKNOWN if constant is None else evaluate(home, constant)
    elif isinstance(node, ast.FormattedValue):
        value = evaluate(module, node.value, known)
    elif isinstance(node, ast.JoinedStr):
        value = "".join(str(evaluate(module, part, known)) for part in node.values)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
        value = tuple(
            evaluate(module, each, known) for each in (node.keys if isinstance(node, ast.Dict) else node.elts)
        )
    elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call):
        value = _compute(module, node, known)
    if value is _UNKNOWN:
        raise ValueError("not a literal")
    return value


def _compute(module: Module, node: ast.BinOp | ast.UnaryOp | ast.Call, known: Mapping[str, object]) -> object:
    if isinstance(node, ast.UnaryOp):
        number = evaluate(module, node.operand, known)
        return -number if isinstance(node.op, ast.USub) and isinstance(number, int | float) else _UNKNOWN
    if isinstance(node, ast.BinOp):
        left, right = evaluate(module, node.left, known), evaluate(module, node.right, known)
        joined = {type(left), type(right)} in ({str}, {tuple}) and isinstance(node.op, ast.Add)
        return left + right if joined else _UNKNOWN  # type: ignore[operator]
    if isinstance(node.func, ast.Attribute) and node.func.attr == "keys" and not node.args:
        return evaluate(module, node.func.value, known)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    values = [evaluate(module, each, known) for each in node.args]
    if name in ("list", "tuple", "sorted", "set") and len(values) == 1 and isinstance(values[0], tuple):
        return values[0]
    whole = [value for value in values if type(value) is int and abs(value) < 10_000]
    return tuple(range(*whole)) if name == "range" and 1 <= len(whole) == len(values) <= 2 else _UNKNOWN


def try_evaluate(module: Module, node: ast.AST | None, names: Mapping[str, object] | None = None) -> object:
    """The same, None where it is not known."""
    try:
        return evaluate(module, node, names)
    except (ValueError, TypeError, RecursionError):
        return None


def link_constants(modules: tuple[Module, ...]) -> None:
    """Let the constants be found that the modules import from each other."""
    by_name: dict[str, list[Module]] = {}
    for module in modules:
        path = PurePath(module.source.path)
        by_name.setdefault(path.parent.name if path.stem == "__init__" else path.stem, []).append(module)
        module.memo[link_constants] = by_name


def _find_constant(module: Module, node: ast.Name | ast.Attribute) -> tuple[Module, ast.expr | None]:
    """What a name stands for that is set once, and the module that says so."""
    own = module.once(_list_constants).get(node.id) if isinstance(node, ast.Name) else None
    if own is not None:
        return module, own
    home, _, name = module.name_of(node).rpartition(".")
    linked: dict[str, list[Module]] = module.memo.get(link_constants, {})
    found = linked.get(home.rpartition(".")[2], ())
    return (found[0], found[0].once(_list_constants).get(name)) if len(found) == 1 else (module, None)


def _list_constants(module: Module) -> dict[str, ast.expr]:
    """What names stand for that the module sets once, outside of functions."""
    values: dict[str, ast.expr] = {}
    counts = Counter(node.id for node in module.kinds.get(ast.Name, ()) if not isinstance(node.ctx, ast.Load))
    counts.update(node.arg for node in module.kinds.get(ast.arg, ()))
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and counts[target.id] == 1:
                    values[target.id] = statement.value
    return values
