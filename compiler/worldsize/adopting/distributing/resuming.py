"""Save a checkpoint after each epoch and go on from the last one, in a folder that functions pass on."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from worldsize.adopting.distributing.files import read_opened
from worldsize.adopting.distributing.kept_numbers import (
    list_before,
    list_collections,
    list_kept,
    list_lost,
    list_objects,
)
from worldsize.adopting.distributing.wrapping import Wrapped
from worldsize.adopting.options.flags import add_flag, list_flags
from worldsize.adopting.options.parsers import Parser, find_place
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.loops import EpochLoop, find_range_call, name_epoch
from worldsize.adopting.training.search import Frame, Training, is_optimizer, lift_name
from worldsize.scripts.bindings import Scope

_STEPPED = re.compile(
    r"opt|sched|lr|scal|anneal|plateau|warm|decay|SGD|Adam|RMSprop|Adagrad|Lion", re.IGNORECASE
)
_ALL_TYPES = ", weights_only=False"  # a number of NumPy is none that PyTorch loads otherwise
_COPIES = ("copy.deepcopy", "deepcopy", "AveragedModel")
VARIABLE = "AZURE_ML_OUTPUT_checkpoints"  # which Azure ML sets for an output with the name `checkpoints`
REASON = "a job that is interrupted goes on from its last epoch"
_PASSED = "the loop gets what it needs by parameters"


def resume_from_checkpoints(
    script: Script, training: Training, wrapped: Wrapped, *, parser: Parser, header: Header
) -> None:
    """Add `--checkpoints`, where everything that has to be saved can be named beside the loop over epochs."""
    loop = training.epoch_loop
    if loop is None:
        script.leave(training.batch_loop, "no checkpoints: there is no loop over epochs")
        return
    parts = list_parts(script, training, wrapped)
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
    leave_lost(script, loop, extra, [kept.name for kept in objects if not kept.is_plain])
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
    script.insert_after(loop.body[-1], save, None, REASON)


def leave_lost(script: Script, loop: EpochLoop, saved: Collection[str], objects: Sequence[str]) -> None:
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
        script.replace(counter.args[0], start, None, REASON)
        return script.written(counter.args[0])
    script.insert_front(counter.args[0], f"{start}, ", None, REASON)
    return "0"


def insert_before_loop(script: Script, loop: ast.stmt, lines: list[str]) -> None:
    """Write lines before a loop, behind the statement above it: comments stay with the loop."""
    block = script.block(loop)
    position = block.index(loop)
    if position and script.has_own_line(block[position - 1]):
        defines = isinstance(block[position - 1], ast.FunctionDef | ast.ClassDef)
        blank = ["", ""] if block is script.module.tree.body else [""]
        script.insert_after(block[position - 1], blank * defines + lines, None, REASON)
    else:
        script.insert_before(loop, lines, None, REASON)


def find_range(loop: ast.For) -> ast.Call | None:
    """``range(…)`` of ``for epoch in range(…)``, also in a progress bar."""
    counter = find_range_call(loop)
    fits = counter is not None and len(counter.args) <= 2 and isinstance(loop.target, ast.Name)
    return counter if fits else None


def list_parts(script: Script, training: Training, wrapped: Wrapped) -> dict[str, str] | None:
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


def name_folder(script: Script, training: Training, *, parser: Parser, header: Header) -> str:
    """The folder as the loop over epochs reads it; functions pass it on to a loop that reads no options."""
    loop = training.epoch_loop
    assert loop is not None
    if any(flag.role == "checkpoints" for flag in list_flags(parser)):  # what the script itself keeps there
        return name_by_variable(script, header)
    place = find_place(script, parser, loop)
    if place is not None:
        return add_flag(parser, "checkpoints", None, place=place)
    frames = training.frames[training.epoch_frame :]
    for number, outer in enumerate(frames[1:], 1):
        function = frames[number - 1].scope
        if isinstance(function, ast.Module) or function.args.vararg is not None:
            break
        place = find_place(script, parser, outer.call)
        if place is not None:
            option = add_flag(parser, "checkpoints", None, place=place)
            return _pass_on(script, frames[: number + 1], "checkpoints", option, "None")
    return name_by_variable(script, header)


def name_epoch_inside(script: Script, training: Training) -> str | None:
    """The number of the epoch in the function of the loop over batches, which gets it if it does not yet."""
    assert training.epoch_loop is not None
    name = name_epoch(script, training.epoch_loop)
    frames = training.frames[training.batch_frame : training.epoch_frame + 1]
    for number in range(len(frames) - 1, 0, -1):
        function = frames[number - 1].scope
        if isinstance(function, ast.Module) or function.args.vararg is not None:
            return None
        values = {
            taken.arg: script.argument(frames[number].call, function, taken.arg)
            for taken in function.args.args
        }
        taken = next((arg for arg, value in values.items() if getattr(value, "id", "") == name), None)
        if taken is None:
            return _pass_on(script, frames[: number + 1], "epoch", name, "0")
        name = taken
    return name


def _pass_on(script: Script, frames: list[Frame], wanted: str, value: str, default: str) -> str:
    """Let each function on the way to the loop take a parameter; the outermost call passes the value."""
    scopes = [frame.scope for frame in frames[:-1]]
    name = wanted if not any(_knows(script, scope, wanted) for scope in scopes) else script.new_name(wanted)
    for scope in scopes:
        assert not isinstance(scope, ast.Module)
        script.add_parameter(scope, f"{name}={default}", None, _PASSED)
    for frame in frames[1:]:
        script.set_keyword(frame.call, name, value if frame is frames[-1] else name, None, _PASSED)
    return name


def _knows(script: Script, scope: Scope, name: str) -> bool:
    """Whether a function speaks of a name."""
    names = {getattr(node, "id", getattr(node, "arg", "")) for node in ast.walk(scope)}
    return name in names or name in script.module.names


def name_by_variable(script: Script, header: Header) -> str:
    """A constant with the folder, which only a job has."""
    name = script.new_name("CHECKPOINTS")
    header.imports["import os"] = None
    header.constants.append(f'{name} = os.environ.get("{VARIABLE}")')
    return name
