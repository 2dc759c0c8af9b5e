"""What several processes have to do alike, or one for all: random splits, downloads, names of folders."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.facts.library_calls import find_call
from worldsize.rules.script._group import is_without_group
from worldsize.scripts.bindings import find_scope
from worldsize.scripts.guards import is_guarded_by_rank
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, constant_value, is_conditional, keyword_argument, list_packages
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_rank, mentions_rank
from worldsize.scripts.settings import read_value

_SEEDS = ("generator", "random_state", "seed")
_WITH = {
    "splits_by_torch": ("generator=torch.Generator().manual_seed(0)", "torch.manual_seed(0)"),
    "splits_by_numpy": ("random_state=0", "numpy.random.seed(0)"),
}
_POSITIONAL = 2  # arguments of `random_split` before the generator


def check_split_differs_per_rank(context: Tree, program: Program) -> Iterator[Finding]:
    code = read_reached(program)
    if program.processes < 2 or is_without_group(program):
        return
    for module in program.modules:
        for name, call in module.calls:
            row = find_call(name, *_WITH)
            if row is None or (row.call.startswith("*") and not program.imports("datasets")):
                continue
            if _is_seeded(program, module, call, row.effect) or not code.runs(module, call):
                continue
            if is_guarded_by_rank(program.modules, module, call):
                continue
            processes = f"each of the {program.processes} processes"
            message = f"{processes} draws a split of its own: one validates on what others train on"
            argument, statement = _WITH[row.effect]
            argument = "seed=0" if row.call.startswith("*") else argument
            help_ = f"add `{argument}` to the call, or `{statement}` before it"
            yield Finding(module.span(call), message, help_, related=program.related)
            return


def _is_seeded(program: Program, module: Module, call: ast.Call, effect: str) -> bool:
    """Whether all processes surely draw alike, or it is not known that they don't."""
    given = [node for name in _SEEDS if (node := keyword_argument(call, name)) is not None]
    given += call.args[_POSITIONAL : _POSITIONAL + 1] if effect == "splits_by_torch" else []
    options = any(keyword.arg is None for keyword in call.keywords)
    if options or constant_value(keyword_argument(call, "shuffle")) is False:
        return True
    if any(not isinstance(node, ast.Constant) or node.value is not None for node in given):
        return not any(_differs(program, module, node) for node in given)
    by_effect = ("seeds_all", "seeds_torch" if effect == "splits_by_torch" else "seeds_numpy")
    seeds = [
        (home, seed)
        for home in program.modules
        for name, seed in home.calls
        if find_call(name, *by_effect)
        # What a package that is not known does to the random numbers is not known either.
        or (program.unknown and "seed" in name.rpartition(".")[2].lower())
    ]
    return any(not any(_differs(program, home, part) for part in seed.args) for home, seed in seeds)


def _differs(program: Program, module: Module, node: ast.AST) -> bool:
    """Whether an expression is made of the rank."""
    return any(is_rank(read_reached(program), module, inner) for inner in ast.walk(node))


def check_download_in_every_process(context: Tree, program: Program) -> Iterator[Finding]:
    code, count = read_reached(program), program.per_instance
    if program.processes < 2 or count < 2 or is_without_group(program):
        return
    for module in program.modules:
        packages = list_packages(module) - program.names_beside
        for name, call in module.calls:
            node = keyword_argument(call, "download")
            if node is None or read_value(program, module, node) is not True:
                continue
            is_apart = any(mentions_rank(module, part) for part in call.args)
            if name.partition(".")[0] not in packages or is_apart or not code.runs(module, call):
                continue
            if is_guarded_by_rank(program.modules, module, call) or _waits(program, module, call):
                continue
            if is_conditional(module, call):  # perhaps only where the files are not there
                continue
            message = f"all {count} processes of an instance download and unpack the same files here at once"
            help_ = "download under `if local_rank == 0:` alone, and let the others wait at `dist.barrier()`"
            yield Finding(module.span(node), message, help_, related=program.related)
            return


def _waits(program: Program, module: Module, call: ast.Call) -> bool:
    """Whether some processes wait around a call until another has made it: at a barrier, or for a lock."""
    if any(isinstance(above, ast.With) for above, _ in module.ancestors(call)):
        return True
    scope = find_scope(module, call)
    return any(
        find_call(name, "collective")
        and find_scope(module, other) is scope
        and is_guarded_by_rank(program.modules, module, other)
        for name, other in module.calls
    )


def check_name_differs_per_process(context: Tree, program: Program) -> Iterator[Finding]:
    code = read_reached(program)
    if program.processes < 2 or not program.is_own_loop or program.called(*_PASSES_ON):
        return
    for module in program.modules:
        for node in module.kinds.get(ast.Assign, ()):
            target, made = node.targets[0], _find_differing(module, node.value)
            if made is None or not isinstance(target, ast.Name) or not code.runs(module, node):
                continue
            if is_guarded_by_rank(program.modules, module, node):
                continue
            uses = (use for use in module.mentions(target.id) if use is not target)
            if not any(_is_shared(program, module, use) for use in uses):
                continue
            shown = ast.unparse(made)
            processes = f"each of the {program.processes} processes"
            message = f"{processes} gets another `{target.id}` from `{shown}`: rank 0 writes elsewhere"
            help_ = "let rank 0 choose it, and pass it on with `dist.broadcast_object_list`"
            yield Finding(module.span(made), message, help_, related=program.related)
            return


_PASSES_ON = ("broadcast_object_list", "broadcast_object", "all_gather_object")
_SHARED = ("reads", "loads")  # what another process has to have written


def _find_differing(module: Module, value: ast.AST) -> ast.Call | None:
    """The part of a path that is another one in each process."""
    if not isinstance(value, ast.BinOp | ast.JoinedStr | ast.Call):
        return None
    calls = [inner for inner in ast.walk(value) if isinstance(inner, ast.Call)]
    return next((call for call in calls if find_call(module.name_of(call.func), "differs")), None)


def _is_shared(program: Program, module: Module, use: ast.AST) -> bool:
    """Whether all processes read from a path that a variable is part of."""
    calls = [above for above, _ in module.ancestors(use) if isinstance(above, ast.Call)]
    reads = any(find_call(module.name_of(call.func), *_SHARED) for call in calls)
    return reads and not is_guarded_by_rank(program.modules, module, use)
