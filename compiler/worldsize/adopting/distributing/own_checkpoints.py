"""Extend the checkpoints that a script saves and loads itself: the job needs no others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from worldsize.adopting.distributing.files import read_opened, read_path, saves_beside
from worldsize.adopting.distributing.kept_numbers import (
    is_number,
    list_collections,
    list_kept,
    list_lost,
    list_made,
    list_objects,
)
from worldsize.adopting.distributing.paths import PATHS, find_start
from worldsize.adopting.distributing.resuming import (
    REASON,
    VARIABLE,
    find_range,
    leave_lost,
    list_parts,
    name_by_variable,
)
from worldsize.adopting.distributing.wrapping import Wrapped
from worldsize.adopting.options.flags import list_flags
from worldsize.adopting.options.parsers import Parser, find_option, find_place, find_read
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Bound
from worldsize.adopting.training.loops import EpochLoop, list_assigned, name_epoch
from worldsize.adopting.training.search import Training, is_optimizer
from worldsize.scripts.bindings import Function, is_parameter
from worldsize.scripts.definitions import find_class_around
from worldsize.scripts.loops import counts_passes
from worldsize.scripts.module import constant_value, last_name, list_earlier
from worldsize.scripts.values import find_values

_DEPTH = 4
_WHOLE = """\
def {name}(state, path):
    \"\"\"Write a file beside and rename it: one that is interrupted leaves the file as it was.\"\"\"
    torch.save(state, f"{{path}}.part")
    os.replace(f"{{path}}.part", path)"""
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Div: "/"}
_LISTS = ("listdir", "scandir", "iterdir")


class _Own(Struct, frozen=True, eq=False):
    """How a script saves the state of its training, and loads it again."""

    restores: ast.Call  # that loads the state, here or in a module beside
    saves: tuple[ast.Call, ...] = ()  # the one that saves each time first; none if a module beside does
    paths: tuple[ast.expr, ...] = ()  # where it saves, in the same order
    is_its_own: bool = False  # the script itself opens the file, or renames one that it wrote beside


def _find_own(script: Script, training: Training) -> _Own | None:
    """The checkpoints of the script itself: it loads the state of its optimizer, or its epoch."""
    restoring = [call for call in script.module.called("load_state_dict") if _is_of_optimizer(script, call)]
    restoring += _list_starts(script, training)
    saves = [call for call in script.module.called("torch.save") if _saves_state(script, call, restoring)]
    saves.sort(key=lambda call: _count_conditions(script, call))
    renamed = [_find_renamed(script, call) for call in saves]
    if restoring and saves:
        opened = [read_opened(script.value(call.args[1])).path for call in saves]
        targets = [first or second for first, second in zip(renamed, opened, strict=True)]
        paths = tuple(path or call.args[1] for path, call in zip(targets, saves, strict=True))
        return _Own(restoring[0], tuple(saves), paths, any(targets))
    for _, call in script.module.calls if not restoring else ():
        beside = script.find_beside(call)
        loads = (node for node in ast.walk(beside[1]) if isinstance(node, ast.Call)) if beside else ()
        owners = [ast.unparse(load.func) for load in loads if last_name(load) == "load_state_dict"]
        if any("opt" in owner for owner in owners):
            return _Own(call)
    return _Own(restoring[0]) if restoring else None


def _is_of_optimizer(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a method of an optimizer: ``optimizer.load_state_dict(…)``."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    value = script.value(owner) if owner is not None else None
    made = isinstance(value, ast.Call) and is_optimizer(script, value)
    return made or (owner is not None and "optim" in ast.unparse(owner).lower())


def _list_starts(script: Script, training: Training) -> list[ast.Call]:
    """Where the script loads the epoch with which its loop begins."""
    loop = training.epoch_loop
    counter = find_range(loop) if isinstance(loop, ast.For) else None
    name = counter.args[0] if counter is not None and len(counter.args) > 1 else None
    text = name_epoch(script, loop) if isinstance(loop, ast.While) else getattr(name, "id", "")
    parts = (
        [node for _, value, _ in script.bindings(text, script.scope(loop)) for node in ast.walk(value)]
        if loop is not None
        else []
    )
    values = (script.value(node) for node in parts if isinstance(node, ast.Name))
    calls = (value for value in values if isinstance(value, ast.Call))
    return [call for call in calls if script.called_name(call) == "torch.load"]


def _saves_state(script: Script, call: ast.Call, restoring: Sequence[ast.Call]) -> bool:
    """Whether a call saves to a path what the script loads into its optimizer, as far as that can be seen."""
    state = _find_state(script, call) if len(call.args) > 1 else None
    loaded = {constant_value(getattr(one.args[0], "slice", None)) for one in restoring if one.args} - {None}
    if isinstance(state, ast.Dict):
        return loaded <= set(map(constant_value, state.keys))
    return state is not None and (_is_mapping(script, state) or not isinstance(state, ast.Call))


def _count_conditions(script: Script, call: ast.Call) -> int:
    """The conditions for a call to be made, without those of every n-th pass."""
    above = (above for above, _ in script.module.ancestors(call) if isinstance(above, ast.If))
    return sum(not counts_passes(script.module, condition.test) for condition in above)


def _find_state(script: Script, save: ast.Call) -> ast.expr:
    """What a call saves: of a name that is also loaded, the mapping that is written out."""
    state = script.value(save.args[0])
    bound = script.list_bindings(save.args[0]) if isinstance(save.args[0], ast.Name) else []
    mappings = [value for _, value, _ in bound if _is_mapping(script, value)]
    return mappings[-1] if mappings and not _is_mapping(script, state) else state


def _is_mapping(script: Script, node: ast.AST) -> bool:
    return isinstance(node, ast.Dict) or script.called_name(node) == "dict"


def _find_renamed(script: Script, save: ast.Call) -> ast.expr | None:
    """What the file is called in the end, where the script itself writes it beside first."""
    written = script.written(save.args[1])
    for call in script.module.called("replace", "rename", "move"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call
        moved = [*call.args, owner] if len(call.args) > 1 else [owner, *call.args]
        is_here = script.scope(call) is script.scope(save) and len(moved) > 1
        if is_here and script.written(moved[0]) == written:
            return moved[1]
    return None


def extend_own_checkpoints(
    script: Script, training: Training, wrapped: Wrapped, *, parser: Parser, header: Header
) -> bool:
    """Let the checkpoints of the script be those of the job: one file, written whole, with all that is kept.

    Returns:
        False if the script does not save and load the state of its training, or never does in a job.
    """
    own, optional = _find_own(script, training), _Optional(script, parser)
    waits = own is not None and optional.waits(own.restores)
    gate = optional.find_gate(own.restores) if own is not None and own.saves and waits else None
    if own is None or (waits and gate is None):
        return False
    if not _keep_folder(script, parser, own):
        message = "no checkpoints: the script loads its own here, which a job that resumes does not find"
        script.leave(
            own.restores, message, "save and load them in the folder of an option `--checkpoint-dir`"
        )
    elif gate is not None and not _open_gate(script, parser, header, own, gate):
        option = ast.unparse(gate[0])
        message = f"no checkpoints: the script loads its own only by `{option}`, which a job does not set"
        script.leave(gate[0], message, "load the last one where its file exists, also without the option")
    if own.saves and not own.is_its_own and not script.module.called(*_LISTS):
        name = script.new_name("save_whole")
        for call in own.saves:
            script.replace(call.func, name, None, "a job that ends while it saves keeps the file before")
        header.imports["import os"] = None
        header.helpers.append(_WHOLE.format(name=name))
    _keep_all(script, training, own, wrapped)
    return True


def _keep_folder(script: Script, parser: Parser, own: _Own) -> bool:
    """Let the folder in which the script saves be the output `checkpoints` of the job, if that can be."""
    beside = [*own.restores.args, *(keyword.value for keyword in own.restores.keywords)]
    folders = {
        flag.option: flag.role for flag in list_flags(parser) if flag.role in ("output", "checkpoints")
    }
    for path in own.paths or beside:
        node: ast.expr | None = path
        while node is not None:
            declared = find_option(parser, node)
            if declared is not None and (own.paths or declared.flag.option in folders):
                parser.roles[declared.flag.option] = "checkpoints"
                return True
            start = node
            node = find_start(script, node) or script.step(node)
        if own.paths and read_path(start) is not None and "--output" in folders:
            parser.added[:] = [
                structs.replace(flag, role="checkpoints") if flag.role == "output" else flag
                for flag in parser.added
            ]
            return True
    return "checkpoints" in folders.values() or VARIABLE in script.module.text


def _open_gate(script: Script, parser: Parser, header: Header, own: _Own, gate: tuple[ast.expr, str]) -> bool:
    """In a job that goes on, set the option with which the script loads its checkpoint, if that can be."""
    setting, value = gate
    statement = script.statement(setting)
    while isinstance(above := script.module.parents[statement], ast.If) and statement in above.orelse:
        statement = above
    is_bound = not isinstance(setting, ast.Name) or bool(script.bindings(setting.id, script.scope(setting)))
    named = (_name_at(script, parser, path, statement) for path in own.paths if is_bound)
    if (last := next(filter(None, named), None)) is None or not script.has_own_line(statement):
        return False
    folder = name_by_variable(script, header)
    test = f"if {folder} and os.path.exists({last}):  # the run before this one was interrupted"
    script.insert_before(statement, [test, f"    {ast.unparse(setting)} = {value or last}"], None, REASON)
    return True


def _name_at(
    script: Script, parser: Parser, node: ast.expr, place: ast.stmt, *, starts: bool = True
) -> str | None:
    """A path as it is named at a place, where its own variables may not be set yet; None if it cannot be."""
    if isinstance(node, ast.Constant):
        text = script.written(node)
        folder = find_place(script, parser, place) if starts and read_path(node) is not None else None
        is_placed = folder is not None and any(flag.option == "--output" for flag in parser.added)
        return f"os.path.join({folder.format('output')}, {text})" if folder and is_placed else text
    if isinstance(node, ast.Name | ast.Attribute):
        value = script.step(node)
        option = find_option(parser, node) if value is None or isinstance(node, ast.Attribute) else None
        if option is not None:
            return find_read(script, parser, place, option.name)
        if value is None or (isinstance(node, ast.Name) and _is_set(script, value, place)):
            return None if value is None else script.written(node)
        return _name_at(script, parser, value, place, starts=starts)
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else getattr(node, "args", [])
    texts = [_name_at(script, parser, part, place, starts=starts and part is parts[0]) for part in parts]
    joined: str | None = None
    if isinstance(node, ast.BinOp):
        joined = f"{texts[0]} {_SIGNS.get(type(node.op))} {texts[1]}"
    elif isinstance(node, ast.Call) and script.module.name_of(node.func) in PATHS and not node.keywords:
        joined = f"{script.written(node.func)}({', '.join(map(str, texts))})"
    return None if None in texts else joined


def _is_set(script: Script, value: ast.expr, place: ast.stmt) -> bool:
    """Whether the variable of a value is set where a statement reads it."""
    bound, seen = script.statement(value), (script.module.tree, script.scope(place))
    is_before = bound.lineno < place.lineno and not any(script.loops(bound))
    return is_before and script.scope(value) in seen and isinstance(bound, ast.Assign)


def _keep_all(script: Script, training: Training, own: _Own, wrapped: Wrapped) -> None:
    """Add to the checkpoints of the script what the loop keeps and they lack; report what cannot be added."""
    loop = training.epoch_loop
    if loop is None:
        return
    states = [_find_state(script, call) for call in own.saves]
    if states and not _is_mapping(script, states[0]):
        return  # what it saves is not known
    states += [call for _, call in script.module.calls if not states and saves_beside(script, call)]
    nodes = [node for state in states[:1] for node in ast.walk(state)]
    saved = {last_name(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}
    kept = list_kept(script, loop) | {name: name for name in list_collections(script, loop)}
    parts = list_parts(script, training, wrapped) or {}
    stepped = [name for key, name in parts.items() if key not in ("model", "optimizer")]
    whole = [*kept, *stepped, *(held.name for held in list_objects(script, loop))]
    lacking = [name for name in whole if name.rpartition(".")[2] not in saved]
    lost = [
        name
        for name in lacking
        if name not in (*kept, *stepped) or not _add_entry(script, loop, own, name, kept.get(name))
    ]
    lost += [name for name in kept if name not in lacking and _is_never_loaded(script, loop, name)]
    leave_lost(script, loop, {*whole, *(name for name in list_lost(script, loop, ()) if name in saved)}, lost)


def _list_first(script: Script, loop: EpochLoop, name: str) -> list[Bound]:
    """What a variable of the loop is set to outside of it."""
    bound = script.bindings(name, script.scope(loop))
    return [binding for binding in bound if not script.is_under(binding[0], loop)]


def _is_never_loaded(script: Script, loop: EpochLoop, name: str) -> bool:
    """Whether a variable has the number that is written out until the loop begins."""
    bound = _list_first(script, loop, name)
    values = [
        value.elts[at] if at is not None and isinstance(value, ast.Tuple) else value for _, value, at in bound
    ]
    return bool(values) and all(map(is_number, values))


def _add_entry(script: Script, loop: EpochLoop, own: _Own, name: str, text: str | None) -> bool:
    """Save and load one thing more, where the names are known; the ``text`` saves a number or a list."""
    loaded = own.restores.args[0] if own.restores.args else None
    source = loaded.value if isinstance(loaded, ast.Subscript) else None
    statement = script.statement(own.restores)
    if not own.saves or not isinstance(source, ast.Name) or not script.has_own_line(statement):
        return False
    state = _find_state(script, own.saves[0])
    values = getattr(state, "values", None) or [word.value for word in getattr(state, "keywords", ())]
    can_load = _is_set_before(script, loop, statement, name)
    if not values or not can_load or not _can_name(script, loop, state, name):
        return False
    key, entry = name.rpartition(".")[2], text or f"{name}.state_dict()"
    added = f', "{key}": {entry}' if isinstance(state, ast.Dict) else f", {key}={entry}"
    script.insert_behind(values[-1], added, None, REASON)
    lines = [f'{name} = {source.id}.get("{key}", {name})']
    if text is None:
        lines = [f'if "{key}" in {source.id}:', f'    {name}.load_state_dict({source.id}["{key}"])']
    script.insert_after(statement, lines, None, REASON)
    return True


def _can_name(script: Script, loop: EpochLoop, node: ast.AST, name: str) -> bool:
    """Whether a name of the loop is the same at a node, to be read."""
    scope = script.scope(node)
    if name.startswith("self."):
        return find_class_around(script.module, node) is find_class_around(script.module, loop)
    is_hidden = bool(script.bindings(name, scope)) or is_parameter(scope, name)
    return scope is script.scope(loop) or (script.scope(loop) is script.module.tree and not is_hidden)


def _is_set_before(script: Script, loop: EpochLoop, statement: ast.stmt, name: str) -> bool:
    """Whether what the loop keeps has its first value where the script loads its checkpoint."""
    scope = script.scope(statement)
    if not name.startswith("self."):
        lines = [place.lineno for place, _, _ in _list_first(script, loop, name)]
        return scope is script.scope(loop) and bool(lines) and max(lines) < statement.lineno
    made = [
        (place, ast.unparse(target))
        for place in list_made(script, loop)
        for target, _ in list_assigned(place)
    ]
    starts = [place for place, target in made if target == name]
    calls = [] if isinstance(scope, ast.Module) else script.calls(scope)
    loading = [call.lineno for call in calls if starts and script.scope(call) is script.scope(starts[0])]
    is_early = all(starts[-1].lineno < line for line in loading)
    return bool(starts) and is_early and _can_name(script, loop, statement, name)


class _Optional:
    """What runs only with an option, as in ``if args.resume:``, that a job does not get."""

    def __init__(self, script: Script, parser: Parser) -> None:
        self._script, self._parser = script, parser
        self._given = {flag.option for flag in list_flags(parser) if flag.role == "checkpoints"}
        self._libraries = {full.partition(".")[0] for full in script.module.names.values()}  # `torch.load`

    def waits(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a node runs only with such an option, also by the calls of its function."""
        if any(map(self._is_off, self._list_tests(node))):
            return True
        function = self._script.scope(node)
        if depth == 0 or isinstance(function, ast.Module):
            return False
        calls = self._list_calls(function)
        if not calls:  # a function that nothing speaks of does not run
            has_base = getattr(self._script.module.parents.get(function), "bases", ())
            return not (function.decorator_list or has_base or self._is_spoken_of(function))
        return all(self.waits(call, depth - 1) for call in calls)

    def find_gate(self, node: ast.AST, depth: int = _DEPTH) -> tuple[ast.expr, str] | None:
        """The option, or setting, with which a node runs, and its value then; empty where any is right."""
        function = self._script.scope(node)
        calls = self._list_calls(function) if depth and not isinstance(function, ast.Module) else []
        gate = self.find_gate(calls[0], depth - 1) if len(calls) == 1 else None
        for test in reversed([test for test in self._list_tests(node) if self._is_off(test)]):
            gate = gate or next(filter(None, map(self._read_gate, ast.walk(test))), None)
        return gate

    def _read_gate(self, node: ast.AST) -> tuple[ast.expr, str] | None:
        if isinstance(node, ast.Compare) and self._is_other(node):
            return node.left, self._script.written(node.comparators[0])
        if not isinstance(node, ast.Name | ast.Attribute) or not self._is_left_out(node):
            return None
        option = self._parser.options.named(last_name(node))
        places = find_values(self._script.code, self._script.module, node) if option is None else []
        values = [constant_value(value) for _, value in places]
        is_switch = option.flag.words == 0 if option is not None else False in values
        return node, "True" if is_switch else ""

    def _is_other(self, test: ast.Compare) -> bool:
        """Whether ``init_from == "resume"`` is false by the default of what is compared."""
        option = self._parser.options.named(last_name(test.left))
        value = self._script.value(test.left)
        default = option.flag.default if option is not None else constant_value(value)
        wanted = constant_value(test.comparators[0])
        return (
            isinstance(test.ops[0], ast.Eq)
            and isinstance(wanted, str)
            and isinstance(default, str)
            and default != wanted
        )

    def _list_calls(self, function: Function) -> list[ast.Call]:
        """The calls of a function by others, without those of a function of a library with its name."""
        named = self._script.module.callers.get(function.name, ())
        calls = [call for name, call in named if name.partition(".")[0] not in self._libraries]
        calls = self._script.calls(function) if function.name == "__init__" else calls
        return [call for call in calls if self._script.scope(call) is not function]

    def _is_spoken_of(self, function: Function) -> bool:
        """Whether the script may pass a function on, or Python calls it, as `__call__`."""
        nodes = (*self._script.nodes(ast.Attribute), *self._script.nodes(ast.Name))
        names = [self._script.module.name_of(inner).split(".") for inner in nodes]
        passed = any(parts[-1] == function.name and parts[0] not in self._libraries for parts in names)
        return passed or function.name.startswith("__")

    def _list_tests(self, node: ast.AST) -> Iterator[ast.expr]:
        """What has to be true for a node of a function to run, as far as it is said without `not`."""
        for above, child in self._script.module.ancestors(node):
            if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
                runs = child is above.body or (isinstance(above.body, list) and child in above.body)
                yield from [above.test] if runs else _negate(above.test)
            for before in list_earlier(above, child):
                if isinstance(before, ast.If) and isinstance(before.body[-1], ast.Return | ast.Continue):
                    yield from _negate(before.test)
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                return

    def _is_off(self, test: ast.expr) -> bool:
        if isinstance(test, ast.BoolOp):
            return (any if isinstance(test.op, ast.And) else all)(map(self._is_off, test.values))
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return False
        if isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant):
            if self._is_other(test):
                return True
            absent = not test.comparators[0].value
            if absent and isinstance(test.ops[0], ast.Is | ast.Eq):
                return False
        return any(map(self._is_left_out, ast.walk(test)))

    def _is_left_out(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a node reads an option, or a setting of a class, that is nothing unless it is given."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return False
        name = last_name(node)
        if (option := self._parser.options.named(name)) is not None:
            flag = option.flag
            return not flag.default and not flag.required and flag.option not in self._given
        if isinstance(node, ast.Name):
            values = find_values(self._script.code, self._script.module, node)
            return depth > 0 and bool(values) and all(self._is_left_out(one, depth - 1) for _, one in values)
        settings = [
            value
            for class_ in self._script.classes.values()
            for _, value, _ in self._script.bindings(name, class_)
        ]
        return bool(settings) and all(isinstance(one, ast.Constant) and not one.value for one in settings)


def _negate(test: ast.expr) -> list[ast.expr]:
    """``args.resume`` of ``not args.resume`` and of ``args.resume is None``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [test.operand]
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq):
        other = test.comparators[0]
        return [test.left] if isinstance(other, ast.Constant) and not other.value else []
    return []
