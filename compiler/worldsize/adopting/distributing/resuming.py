"""Save a checkpoint after each epoch, and go on from the last one."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from worldsize.adopting.distributing.files import read_opened
from worldsize.adopting.distributing.kept_numbers import list_before, list_kept, list_lost, list_made
from worldsize.adopting.distributing.passing import VARIABLE, name_folder
from worldsize.adopting.distributing.wrapping import Wrapped
from worldsize.adopting.options.flags import list_flags
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import find_initializer
from worldsize.adopting.training.loops import EpochLoop, find_range_call, list_assigned, name_epoch
from worldsize.adopting.training.search import Training, is_optimizer, lift_name
from worldsize.scripts.bindings import Function, Scope
from worldsize.scripts.definitions import find_class_around
from worldsize.scripts.module import last_name, list_earlier
from worldsize.scripts.values import find_values

_STEPPED = re.compile(
    r"opt|sched|lr|scal|anneal|plateau|warm|decay|SGD|Adam|RMSprop|Adagrad|Lion", re.IGNORECASE
)
_ALL_TYPES = ", weights_only=False"  # a number of NumPy is none that PyTorch loads otherwise
_COPIES = ("copy.deepcopy", "deepcopy", "AveragedModel")
_REASON = "a job that is interrupted goes on from its last epoch"


def resume_from_checkpoints(
    script: Script, training: Training, wrapped: Wrapped, *, parser: Parser, header: Header
) -> None:
    """Add `--checkpoints`, where everything that has to be saved can be named beside the loop over epochs."""
    loop = training.epoch_loop
    if loop is None:
        script.leave(training.batch_loop, "no checkpoints: there is no loop over epochs")
        return
    if resumes_itself(script, parser):
        return
    parts = _list_parts(script, training, wrapped)
    counts_epochs = isinstance(loop, ast.While) or find_range(loop) is not None
    if not counts_epochs or parts is None:
        help_ = "save and load them beside this loop, and name the folder by an option"
        message = "no checkpoints: this loop over epochs cannot name the model and the optimizer"
        script.leave(loop, message, help_)
        return
    extra = list_kept(script, loop)
    lists = list_collections(script, loop)
    extra |= {name: name for name in lists}
    objects = list_objects(script, loop)
    helpers = [kept.name for kept in objects if kept.is_plain]
    _leave_lost(script, loop, extra, [kept.name for kept in objects if not kept.is_plain])
    folder = name_folder(script, training, parser=parser, header=header)
    header.imports["import os"] = None
    start, latest, state = (script.new_name(word) for word in ("start_epoch", "latest", "state"))
    if isinstance(loop, ast.While):
        extra[name_epoch(script, loop)] = name_epoch(script, loop)
    optional = _list_optional(script, loop, parts)
    load = [
        f'{latest} = os.path.join({folder}, "latest.pt") if {folder} else ""',
        f"if os.path.exists({latest}):  # the run before this one was interrupted",
        f'    {state} = torch.load({latest}, map_location="cpu"{_ALL_TYPES if helpers or lists else ""})',
        *(line for key, name in parts.items() for line in _load(key, name, state, optional)),
        *(f'    {name} = {state}["{name}"]' for name in extra),
        *(f'    vars({name}).update({state}["{name}"])' for name in helpers),
    ]
    entries = [
        f'"{key}": {name}.state_dict()' + f" if {name} is not None else None" * (name in optional)
        for key, name in parts.items()
    ]
    entries += [f'"{name}": {text}' for name, text in extra.items()]
    entries += [f'"{name}": vars({name})' for name in helpers]
    if isinstance(loop, ast.For):
        load = [f"{start} = {start_from(script, loop, start)}", *load]
        load.append(f'    {start} = {state}["epoch"] + 1')
        entries.insert(0, f'"epoch": {name_epoch(script, loop)}')
    save = [
        f"if {header.names.is_first} and {latest}:",
        f"    os.makedirs({folder}, exist_ok=True)",
        f"    {state} = {{",
        *(f"        {entry}," for entry in entries),
        "    }",
        f'    torch.save({state}, {latest} + ".part")',
        f'    os.replace({latest} + ".part", {latest})',
    ]
    insert_before_loop(script, loop, load)
    script.insert_after(loop.body[-1], save, None, _REASON)


def _leave_lost(script: Script, loop: EpochLoop, saved: Collection[str], objects: Sequence[str]) -> None:
    """Report what a job that resumes starts anew."""
    lost = dict.fromkeys((*_list_unsaved(script, loop), *objects), loop)
    for name, place in {**list_lost(script, loop, saved), **lost}.items():
        message = f"`{name}` starts anew when a job resumes"
        script.leave(place, message, "save and load it with the other state")
    for name, read in _list_unset(script, loop).items():
        message = f"only the loop sets `{name}`: a job that resumes after its last epoch fails here"
        script.leave(read, message, f"set `{name}` before the loop too")
    for call in _list_truncated(script, loop):
        help_ = 'open it with "a", and write a header once'
        script.leave(call, "this file starts anew when a job resumes", help_)


def _list_unset(script: Script, loop: EpochLoop) -> dict[str, ast.Name]:
    """Names that are read behind a loop and set nowhere but in it, each with the first such place."""
    scope, end = script.scope(loop), script.end(loop)
    names_of_scope = [name for name in script.nodes(ast.Name) if script.scope(name) is scope]
    inside = {
        node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    elsewhere = {
        node.id
        for node in names_of_scope
        if isinstance(node.ctx, ast.Store) and not script.is_under(node, loop)
    }
    for node in ast.walk(scope):  # parameters, and what is of the file
        elsewhere |= {node.arg} if isinstance(node, ast.arg) else {*getattr(node, "names", ())}
    reads: dict[str, ast.Name] = {}
    for name in sorted(names_of_scope, key=script.start):
        if isinstance(name.ctx, ast.Load) and script.start(name) > end and name.id in inside - elsewhere:
            reads.setdefault(name.id, name)
    return reads


def _load(key: str, name: str, state: str, optional: Collection[str]) -> list[str]:
    line = f'    {name}.load_state_dict({state}["{key}"])'
    return [f"    if {name} is not None:", f"    {line}"] if name in optional else [line]


def _list_optional(script: Script, loop: EpochLoop, parts: Mapping[str, str]) -> set[str]:
    """Those that are made on a condition: ``scaler = GradScaler() if args.amp else None``."""
    bound = {
        name: script.bindings(name, script.scope(loop)) or script.bindings(name, script.module.tree)
        for name in parts.values()
    }
    return {
        name
        for name, values in bound.items()
        for _, value, _ in values
        if isinstance(value, ast.IfExp)
        for part in (value.body, value.orelse)
        if isinstance(part, ast.Constant) and part.value is None
    }


def start_from(script: Script, loop: ast.For, start: str) -> str:
    """Let the loop begin with the epoch that a variable says; with which it begins otherwise."""
    counter = find_range(loop)
    assert counter is not None
    if len(counter.args) > 1:
        script.replace(counter.args[0], start, None, _REASON)
        return script.written(counter.args[0])
    script.insert_front(counter.args[0], f"{start}, ", None, _REASON)
    return "0"


def insert_before_loop(script: Script, loop: ast.stmt, lines: list[str]) -> None:
    """Write lines before a loop, behind the statement above it: comments stay with the loop."""
    block = script.block(loop)
    position = block.index(loop)
    if position and script.has_own_line(block[position - 1]):
        defines = isinstance(block[position - 1], ast.FunctionDef | ast.ClassDef)
        blank = ["", ""] if block is script.module.tree.body else [""]
        script.insert_after(block[position - 1], blank * defines + lines, None, _REASON)
    else:
        script.insert_before(loop, lines, None, _REASON)


def find_range(loop: ast.For) -> ast.Call | None:
    """``range(…)`` of ``for epoch in range(…)``, also in a progress bar."""
    counter = find_range_call(loop)
    fits = counter is not None and len(counter.args) <= 2 and isinstance(loop.target, ast.Name)
    return counter if fits else None


def _list_parts(script: Script, training: Training, wrapped: Wrapped) -> dict[str, str] | None:
    """What has a state, with its name beside the loop over epochs."""
    frames, high = training.frames, training.epoch_frame
    scope = frames[high].scope
    model = _name_model(script, training, wrapped, scope)
    parts = {"model": model} if model is not None else {}
    scopes = {frame.scope: number for number, frame in reversed(list(enumerate(frames)))}
    for _, call in script.module.callers.get("step", ()):
        number = scopes.get(script.scope(call))
        if number is None or not isinstance(call.func, ast.Attribute) or not _has_state(script, call):
            continue
        if number > high or _may_be_missing(script, training, call):
            return None
        owners = [call.func.value]
        if call.args and "scal" in ast.unparse(call.func.value).lower():
            owners.append(call.args[0])
        for owner in owners:
            name = lift_name(script, training, owner, (number, high))
            if name is None:
                return None
            written = script.written(owner)
            is_own = written == script.written(training.optimizer_name)
            parts.setdefault("optimizer" if is_own else written.rpartition(".")[2], name)
    parts |= {name: name for name in _list_copies(script, scope, training)}
    return parts if "model" in parts and "optimizer" in parts else None


def _has_state(script: Script, call: ast.Call) -> bool:
    """Whether what is stepped is an optimizer, a scheduler or a scaler, and not a profiler or a game."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    value = script.value(owner)
    if isinstance(value, ast.Call) and is_optimizer(script, value):
        return True
    words = (script.called_name(value).rpartition(".")[2], script.written(owner))
    return any(map(_STEPPED.search, words))


def _may_be_missing(script: Script, training: Training, call: ast.Call) -> bool:
    """Whether what is stepped is made under a condition, and is `None` or no name otherwise."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    bound = script.list_bindings(owner) if isinstance(owner, ast.Name) else []
    if len(bound) == 1 and training.epoch_loop is not None:
        above = script.module.parents.get(bound[0][0])
        around = {above for above, _ in script.module.ancestors(training.epoch_loop)}
        return isinstance(above, ast.If) and not above.orelse and above not in around
    return any(isinstance(value, ast.Constant) and value.value is None for _, value, _ in bound)


def _list_copies(script: Script, scope: Scope, training: Training) -> list[str]:
    """Averages of the weights: copies of the model that the loop over epochs changes."""
    model, loop = script.written(training.model), training.epoch_loop
    read = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name)} if loop is not None else set()
    return [
        statement.targets[0].id
        for call in script.module.called(*_COPIES)
        if isinstance(statement := script.module.parents.get(call), ast.Assign)
        if isinstance(statement.targets[0], ast.Name)
        and script.scope(statement) is scope
        and any(script.written(argument) == model for argument in call.args[:1])
        and statement.targets[0].id in read
    ]


def _name_model(script: Script, training: Training, wrapped: Wrapped, scope: Scope) -> str | None:
    for function, parameter in wrapped.parameters.items():
        if function is scope:
            return f"{parameter}.module"
    if training.is_attribute:
        frames = training.frames
        below = [frame.call for frame in frames[1 : training.epoch_frame + 1]]
        for call in below:
            base = script.written(call.func.value) if isinstance(call.func, ast.Attribute) else None
            if base != "self":
                return None if base is None else wrapped.model.replace("self", base, 1)
        return wrapped.model
    is_inside = scope is wrapped.scope or script.is_under(scope, wrapped.scope)
    return wrapped.model if is_inside else None


def _list_truncated(script: Script, loop: EpochLoop) -> list[ast.expr]:
    """Where files are opened with "w" for the whole loop: what the first run wrote is lost."""
    before = list_before(script, loop)
    closed = {ast.unparse(statement) for statement in before if isinstance(statement, ast.Expr)}
    opening = [
        statement.value
        for statement in before
        if isinstance(statement, ast.Assign) and f"{ast.unparse(statement.targets[0])}.close()" not in closed
    ]
    around = [above for above, _ in script.module.ancestors(loop) if isinstance(above, ast.With)]
    opening += [item.context_expr for block in around for item in block.items]
    return [node for node in opening if "w" in read_opened(node).mode]


def _list_unsaved(script: Script, loop: EpochLoop) -> list[str]:
    """Mappings that the loop over epochs sets, such as the best result: what is in them is not known."""
    mappings = {
        target.id
        for statement in list_before(script, loop)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    stored = (node for node in ast.walk(loop) if isinstance(node, ast.Assign | ast.AugAssign))
    targets = (
        part for node in stored for part in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    bases = (part.value if isinstance(part, ast.Subscript) else part for part in targets)
    return sorted({base.id for base in bases if isinstance(base, ast.Name)} & mappings)


_DEPTH = 4


def resumes_itself(script: Script, parser: Parser) -> bool:
    """Whether the script loads the state of an optimizer; reports a folder that a job does not keep."""
    optional = _Optional(script, parser)
    for call in script.module.called("load_state_dict"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is None or "optim" not in ast.unparse(owner).lower() or optional.waits(call):
            continue
        has_folder = any(flag.role == "checkpoints" for flag in list_flags(parser))
        if not has_folder and VARIABLE not in script.module.text:
            message = "no checkpoints: the script loads its own here, which a job that resumes does not find"
            script.leave(call, message, "save and load them in the folder of an option `--checkpoint-dir`")
        return True
    return False


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


_HEAVY = re.compile(r"model|net\b|weight|state|optim|loader|data|shadow|param", re.IGNORECASE)
_PLAIN_CALLS = ("float", "int", "min", "max", "abs", "round", "len")
_CHANGES = ("append", "extend", "update", "pop", "insert", "clear", "add")
_PARTS = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Dict)


class Kept(Struct, frozen=True):
    """An object, as the loop names it."""

    name: str
    is_plain: bool  # its attributes are numbers and texts, which a checkpoint can have


def list_objects(script: Script, loop: EpochLoop) -> list[Kept]:
    """The objects that have a state of their own, and that the loop, or the class around it, calls."""
    around = find_class_around(script.module, loop)
    calls = [
        node.func
        for top in (loop, around)
        for node in (ast.walk(top) if top is not None else ())
        if isinstance(node, ast.Call)
    ]
    called = {ast.unparse(call) for call in calls}
    called |= {ast.unparse(call.value) for call in calls if isinstance(call, ast.Attribute)}
    objects: dict[str, Kept] = {}
    for statement in (*list_before(script, loop), *list_made(script, loop)):
        value = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
            continue
        class_ = script.find_class(getattr(value.func, "id", ""))
        stored = _list_stored(class_) if class_ is not None and not class_.bases else ()
        if class_ is not None and any(method != "__init__" for method, _ in stored):
            targets = called.intersection(map(ast.unparse, statement.targets))
            objects |= {target: Kept(target, _is_plain(class_, value)) for target in targets}
    return sorted(objects.values(), key=lambda kept: kept.name)


def list_collections(script: Script, loop: EpochLoop) -> list[str]:
    """The lists, and mappings of lists, to which the loop appends numbers of each epoch."""
    empty = {
        ast.unparse(target)
        for statement in (*list_before(script, loop), *list_made(script, loop))
        for target, value in list_assigned(statement)
        if _is_empty(value)
    }
    stored = {
        ast.unparse(target)
        for node in ast.walk(loop)
        if isinstance(node, ast.stmt)
        for target, _ in list_assigned(node)
    }
    appended: dict[str, list[ast.expr]] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append":
            assert isinstance(node.func, ast.Attribute)
            base = node.func.value
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            appended.setdefault(name, []).extend(node.args)
    return sorted(
        name for name, values in appended.items()
        if name in empty - stored and not any(_HEAVY.search(ast.unparse(value)) for value in values)
    )  # fmt: skip


def _is_empty(node: ast.expr) -> bool:
    """Whether an expression is ``[]``, or ``{"loss": [], …}``."""
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(map(_is_empty, node.values))
    return isinstance(node, ast.List) and not node.elts


def _list_stored(class_: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """What methods set attributes to or put into them, with the name of the method."""
    for method in class_.body:
        for node in ast.walk(method) if isinstance(method, ast.FunctionDef) else ():
            assert isinstance(method, ast.FunctionDef)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any("self." in ast.unparse(target) for target in targets):
                    yield method.name, node.value
            elif getattr(getattr(node, "func", None), "attr", "") in _CHANGES:
                assert isinstance(node, ast.Call)
                if ast.unparse(node.func).startswith("self."):
                    yield from ((method.name, argument) for argument in node.args or (None,))


def _is_plain(class_: ast.ClassDef, made: ast.Call) -> bool:
    """Whether all that an object keeps, also what it is made with, are numbers and texts."""
    arguments = [*made.args, *(keyword.value for keyword in made.keywords)]
    if (start := find_initializer(class_)) is not None:
        defaults = (*start.args.defaults, *start.args.kw_defaults)
        arguments += [one for one in defaults if one is not None and ast.unparse(one) != "print"]
    return all(map(_is_number, arguments)) and all(
        value is None or _is_number(value) for _, value in _list_stored(class_)
    )


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
        return True
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return not _HEAVY.search(ast.unparse(node))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _PLAIN_CALLS:
        return True
    parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)]
    return isinstance(node, _PARTS) and all(_is_number(part) for part in parts)  # type: ignore[arg-type]
