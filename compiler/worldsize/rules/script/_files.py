"""What a script saves and loads, in which processes, and from which folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.facts.library_calls import LibraryCall, find_call
from worldsize.rules.script._group import is_without_group
from worldsize.scripts.definitions import Definitions, define_alone
from worldsize.scripts.edits import add_argument, guard_by_rank
from worldsize.scripts.guards import find_guards, is_guarded_by_rank
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, find_mentions, find_passed, last_name
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_rank, is_read_from, mentions_rank
from worldsize.scripts.reached import follow
from worldsize.scripts.values import evaluate, open_variable

_SHARDED = ("FullyShardedDataParallel", "fully_shard", "distributed.checkpoint", "FSDP")


def check_saves_on_every_rank(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2 or not program.is_own_loop or program.says(*_SHARDED):
        return
    if is_without_group(program):
        return  # that is the cause
    effects = {
        "saves_once": "saves this file",
        "logs_once": "logs this",
        "logs_fixed": "logs its own value here",
    }
    if program.imports("horovod"):
        effects["saves_checkpoints"] = "saves its checkpoints here"
    for effect, what in effects.items():
        saves = program.entry.once(_unguarded, program.modules, effect)
        if saves:
            module, call = saves[0]
            more = f" (and {len(saves) - 1} more such calls)" if len(saves) > 1 else ""
            message = f"every rank {what}{more}"
            help_ = "put it under `if rank == 0:`"
            fix = guard_by_rank(program, module, call)
            yield Finding(module.span(call), message, help_, related=program.related, fix=fix)
    if (program.launch.instances.value or 1) > 1 and program.per_instance > 1:
        yield from _check_local_guards(program, (*effects,))


def _unguarded(entry: Module, modules: tuple[Module, ...], effect: str) -> list[tuple[Module, ast.Call]]:
    """The calls with an effect that every rank reaches."""
    code = entry.once(follow, modules)
    return [
        (module, call)
        for module in modules
        for name, call in module.calls
        if (row := find_call(name, *_LOGS if effect in _LOGS else (effect,))) is not None
        and row.effect == effect
        and not _is_apart(code, module, row, call)
        and not is_guarded_by_rank(modules, module, call)
    ]


_LOGS = ("logs_once", "logs_fixed")
_IN_MEMORY = ("BytesIO", "StringIO")


def _is_apart(code: Definitions, module: Module, row: LibraryCall, call: ast.Call) -> bool:
    """Whether the ranks write to places of their own, or the same value to one."""
    what, where = _split_arguments(row, call)
    if any(mentions_rank(module, part) for part in where if not isinstance(part, ast.Constant)):
        return True
    if any(last_name(open_variable(module, part)) in _IN_MEMORY for part in where):
        return True
    inner = [node for part in what for node in ast.walk(part)]
    return row.effect == "logs_fixed" and not any(is_rank(code, module, node) for node in inner)


def _split_arguments(row: LibraryCall, call: ast.Call) -> tuple[list[ast.expr], list[ast.expr]]:
    """What a call writes, and under which path, name or other setting; the keys of a literal are names."""
    position = row.argument if row.effect in _LOGS else 0  # what is saved comes before the path
    what = [argument for at, argument in enumerate(call.args) if at == position]
    where = [argument for at, argument in enumerate(call.args) if at != position]
    for keyword in call.keywords:
        (what if keyword.arg == "value" else where).append(keyword.value)
    for literal in [part for part in what if isinstance(part, ast.Dict)]:
        what.remove(literal)
        where += [key for key in literal.keys if key is not None]
        what += literal.values
    return what, where


def _check_local_guards(program: Program, effects: tuple[str, ...]) -> Iterator[Finding]:
    """Report what the first process of each instance writes, of which only the first of the job should."""
    found = program.entry.once(_find_local_guard, program.modules, effects)
    if found is not None:
        module, test, effect = found
        verb = "logs" if effect in _LOGS else "saves"
        instances = program.launch.instances.value
        message = f"the first process of each of the {instances} instances {verb} this, not only rank 0"
        help_ = f"ask for the rank in the job instead of `{ast.unparse(test)}`: `rank == 0`"
        yield Finding(module.span(test), message, help_, related=program.related)


def _find_local_guard(
    entry: Module, modules: tuple[Module, ...], effects: tuple[str, ...]
) -> tuple[Module, ast.AST, str] | None:
    """The first condition on the local rank alone under which something is written for the whole job."""
    code = entry.once(follow, modules)
    for module in modules:
        for name, call in module.calls:
            row = find_call(name, *effects)
            if row is None or _is_apart(code, module, row, call) or _is_on_node(module, row, call):
                continue
            tests = [test for side, test in find_guards(code, module, call) if side == "first"]
            local = [test for test in tests if _reads_local_rank(code, module, test)]
            if local and len(local) == len(tests) and not _waits_under(module, local[0]):
                return module, local[0], row.effect
    return None


def _waits_under(module: Module, test: ast.AST) -> bool:
    """Whether a collective operation stands under a condition, which is a fault of its own."""
    above = module.parents.get(test)
    inner = ast.walk(above) if above is not None else ()
    return any(
        isinstance(node, ast.Call) and find_call(module.name_of(node.func), "collective") for node in inner
    )


def _reads_local_rank(code: Definitions, module: Module, test: ast.AST) -> bool:
    return any(is_read_from(code, module, node, "local_rank") for node in ast.walk(test))


def _is_on_node(module: Module, row: LibraryCall, call: ast.Call) -> bool:
    """Whether a file is written to the disk of the node."""
    path = evaluate(define_alone(module), module, find_passed(call, 1, "f"))
    return row.effect == "saves_once" and isinstance(path, str) and _LOST.fullmatch(path) is not None


def check_load_without_map_location(context: Tree, program: Program) -> Iterator[Finding]:
    if program.kind != "pytorch" or program.per_instance < 2 or not program.is_own_loop:
        return
    # A default device, copies on the CPU, and weights of another script may lie anywhere.
    if program.says("set_default_device", ".cpu(") or not program.says("cuda"):
        return
    if not any("state_dict" in find_mentions(call) for _, call in program.called("torch.save")):
        return
    for module, call in program.find(_loads):
        if is_guarded_by_rank(program.modules, module, call):
            continue
        message = "every process loads these weights onto the GPU that they were saved from"
        help_ = 'write `map_location="cpu"`: `load_state_dict` copies the weights to the right GPU'
        fix = add_argument(module, call, 'map_location="cpu"')
        yield Finding(module.span(call), message, help_, related=program.related, fix=fix)


def _loads(module: Module) -> list[ast.Call]:
    """The calls of ``torch.load`` that leave the device open and whose result a model takes."""
    taking = [call for name, call in module.calls if name.endswith("load_state_dict")]
    taken = {word for call in taking for argument in call.args for word in find_mentions(argument)}
    inside = {id(node) for call in taking for argument in call.args for node in ast.walk(argument)}
    loads = []
    for call in module.called("torch.load"):
        if len(call.args) != 1 or any(keyword.arg in (None, "map_location") for keyword in call.keywords):
            continue
        above = module.parents.get(call)
        names = above.targets if isinstance(above, ast.Assign) else []
        if id(call) in inside or any(isinstance(name, ast.Name) and name.id in taken for name in names):
            loads.append(call)
    return loads


_LOST = re.compile(r"/(?:tmp|var/tmp|root|home|workspace|opt|scratch)/.+")
_MOST_SAVES = 50  # saves of a program whose paths are looked for in all of its text
# What may take it from there, or says that something else is kept.
_TAKES = re.compile(
    r"outputs\b|mlflow|azureml|azure\.|upload|copy|shutil|\.move\(|rename|subprocess|os\.system|wandb|push_to_hub|boto|"
    r"register|sys\.argv|onnx|export|tar\b|zipfile|blob"
)


def check_saved_outside_outputs(context: Tree, program: Program) -> Iterator[Finding]:
    if any(_TAKES.search(module.text) for module in program.modules):
        return
    saves = [(module, call, path) for module in program.modules for call, path in module.once(_list_saves)]
    text = program.launch.step.component.command if program.launch.step.component else None
    if not 0 < len(saves) <= _MOST_SAVES or not all(
        isinstance(path, str) and _LOST.fullmatch(path) for _, _, path in saves
    ):
        return
    for module, call, path in saves:
        assert isinstance(path, str)
        folder = path.rpartition("/")[0]
        around = str(text.value) if text is not None else ""
        read = sum(folder in other.text for other in program.modules) > 1 or module.text.count(path) > 1
        if folder in around or read or not read_reached(program).runs(module, call):
            return
    module, call, path = saves[-1]
    message = f"`{path}` is deleted with the node: nothing keeps what is saved here"
    help_ = "save it below `./outputs`, or in an output that the job declares"
    yield Finding(module.span(call), message, help_, related=program.related)


def _list_saves(module: Module) -> list[tuple[ast.Call, object]]:
    """The calls that save a model, each with the path, where it is known."""
    saves = ((call, find_call(name, "saves_model")) for name, call in module.calls)
    return [
        (call, evaluate(define_alone(module), module, find_passed(call, row.argument or 0, "f")))
        for call, row in saves
        if row is not None
    ]


def check_working_folder_changed(context: Tree, program: Program) -> Iterator[Finding]:
    if program.processes < 2:
        return
    for module, call in program.called("os.chdir"):
        if not is_guarded_by_rank(program.modules, module, call):
            message = "`os.chdir` in every process changes what relative paths refer to"
            help_ = "join paths with `os.path.join`, or give `cwd=` to the process that needs it"
            yield Finding(module.span(call), message, help_, related=program.related)
