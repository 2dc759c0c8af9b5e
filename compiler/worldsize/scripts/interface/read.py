"""The interface of a program's script, whichever library builds it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.scripts.interface.absl import read_absl
from worldsize.scripts.interface.argparse import read_argparse
from worldsize.scripts.interface.click import read_click
from worldsize.scripts.interface.dataclass_arguments import read_dataclass_arguments
from worldsize.scripts.interface.functions import read_fire, read_typer
from worldsize.scripts.interface.model import Interface
from worldsize.scripts.module import Module, constant_value, is_conditional, keep
from worldsize.scripts.program import Program
from worldsize.scripts.reached import Reached, follow

# They read arguments, or files of arguments, in ways that are not followed here.
_OTHERS = (
    "configargparse", "jsonargparse", "hydra", "simple_parsing", "tyro", "tap", "docopt", "docopt_ng",
)  # fmt: skip
# Each library, and who reads what is made with it; a script that uses two of them is not judged.
_READERS = {
    "transformers.HfArgumentParser": read_dataclass_arguments,
    "argparse.ArgumentParser": read_argparse,
    "click.command": read_click,
    "click.group": read_click,
    "typer.run": read_typer,
    "typer.Typer": read_typer,
    "fire.Fire": read_fire,
    "absl.app.run": read_absl,
}
_CHANGES = ("append", "extend", "insert", "pop", "remove", "clear")


def read_interface(program: Program) -> Interface | None:
    """The arguments that the script takes; None if its text does not show them."""
    return program.entry.once(_read, program.modules)


def read_reached(program: Program) -> Reached:
    """Which code of the script runs."""
    return program.entry.once(follow, program.modules)


def runs_in_job(program: Program, module: Module, node: ast.AST) -> bool:
    """Whether a node runs unconditionally, or under conditions that hold in a job with several processes."""
    if not is_conditional(module, node):
        return True
    in_group = program.kind == "pytorch" and program.processes > 1
    return in_group and read_reached(program).runs_in_group(module, node)


def _read(entry: Module, modules: tuple[Module, ...]) -> Interface | None:
    readers = {read for name, read in _READERS.items() for module in modules if any(_find_uses(module, name))}
    if len(readers) > 1:  # a module beside the script may have a program of its own
        reached = entry.once(follow, modules)
        readers = {
            read
            for name, read in _READERS.items()
            for module in modules
            if any(reached.runs(module, node) for node in _find_uses(module, name))
        }
    tops = {name.partition(".")[0] for module in modules for name, _, _ in module.imports}
    if len(readers) != 1 or not tops.isdisjoint(_OTHERS):
        return None
    if any(_changes_arguments(module) for module in modules):
        return None
    return readers.pop()(entry.once(follow, modules))


def _find_uses(module: Module, name: str) -> Iterator[ast.AST]:
    """Where a file uses a name of a library; a decorator need not be called."""
    last = name.rpartition(".")[2]
    if name.partition(".")[2] not in module.text:
        return iter(())
    return (
        node
        for node in (*module.kinds.get(ast.Attribute, ()), *module.kinds.get(ast.Name, ()))
        if (node.attr if isinstance(node, ast.Attribute) else module.names.get(node.id, "")).endswith(last)
        and module.name_of(node) in (name, f"rich_{name}")
    )


def _changes_arguments(module: Module) -> bool:
    """Whether a file does more with `sys.argv` than read it, also under another name."""
    above = [module.parents.get(node) for node in _list_argv(module)]
    targets = [target for node in above if isinstance(node, ast.Assign) for target in node.targets]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    uses = [node for node in module.kinds.get(ast.Name, ()) if node.id in names]
    again = [node for node in uses if isinstance(node.ctx, ast.Load)]
    return any(_changes(module, node) for node in (*_list_argv(module), *again))


@keep
def _list_argv(module: Module) -> list[ast.Attribute | ast.Name]:
    """Where a file names `sys.argv`."""
    if "argv" not in module.text:
        return []
    return [
        *(node for node in module.kinds.get(ast.Attribute, ()) if module.name_of(node) == "sys.argv"),
        *(node for node in module.kinds.get(ast.Name, ()) if module.names.get(node.id) == "sys.argv"),
    ]


def _changes(module: Module, node: ast.Attribute | ast.Name) -> bool:
    above = module.parents.get(node)
    if isinstance(above, ast.Subscript):
        return not isinstance(above.ctx, ast.Load)
    called = isinstance(above, ast.Attribute) and above.attr in _CHANGES
    return called or not isinstance(node.ctx, ast.Load) or isinstance(above, ast.AugAssign | ast.Delete)


def find_words_read(reached: Reached) -> tuple[int, Module, ast.AST] | None:
    """The highest index that always is read, and where; None if the script may ask how many there are."""
    reads: list[tuple[int, Module, ast.AST]] = []
    for module in reached.modules:
        for node in _list_argv(module):
            above = module.parents.get(node)
            if isinstance(above, ast.Assign) and above.value is node:
                count, place = _count_targets(above), above.targets[0]
                count = count - 1 if count is not None else None  # the first is the script
            elif isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Load):
                count, place = _read_count(module, above), above
            else:
                return None
            if count is None:
                return None
            caught = any(isinstance(above, ast.Try) for above, _ in module.ancestors(node))
            if not caught and reached.surely_runs(module, node):
                reads.append((count, module, place))
    return max(reads, key=lambda read: read[0], default=None)


def _read_count(module: Module, node: ast.Subscript) -> int | None:
    """The number of the word in `sys.argv[2]`, or of the last in `a, b = sys.argv[1:]`."""
    number = constant_value(node.slice)
    if isinstance(number, int):
        return number if number >= 0 else None
    part = node.slice
    if not isinstance(part, ast.Slice) or constant_value(part.lower) != 1 or part.upper is not None:
        return None
    above = module.parents.get(node)
    if isinstance(above, ast.Call) and module.name_of(above.func) == "map":
        above = module.parents.get(above)
    return _count_targets(above) if isinstance(above, ast.Assign) else None


def _count_targets(statement: ast.Assign) -> int | None:
    """The number of values that `a, b = …` unpacks; None if that varies."""
    target = statement.targets[0]
    if not isinstance(target, ast.Tuple) or any(isinstance(element, ast.Starred) for element in target.elts):
        return None
    return len(target.elts)
