"""Find the training of a plain PyTorch script: its loop, loader, optimizer and model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Loop, read_iterable
from worldsize.adopting.training.feeding import (
    Feed,
    find_beside,
    find_phases,
    find_repeated,
    find_stream,
    list_taken,
    unwrap_loader,
)
from worldsize.adopting.training.loops import evaluates, find_counter, is_without_gradient
from worldsize.adopting.training.refusals import APART, refuse_graphs
from worldsize.facts.library_calls import find_call, list_last_names
from worldsize.scripts.bindings import (
    Function,
    Scope,
    find_argument,
    is_method,
    is_parameter,
    list_parameters,
)
from worldsize.scripts.loops import list_backward_calls
from worldsize.scripts.module import Module, find_passed, last_name

_CLOSURE = (
    "this optimizer runs the model inside of `step`, as L-BFGS does",
    "choose an optimizer that takes no closure",
)


class Frame(Struct, eq=False):
    """A function on the way to `backward()`, and what it calls there; the first calls `backward` itself."""

    scope: Scope
    call: ast.Call
    others: tuple[ast.Call, ...] = ()  # of the same function, which only evaluate


class Training(Struct, eq=False):
    """Where a script trains."""

    frames: list[Frame]  # from `backward` out to the function that starts all
    batch_frame: int  # the frame of the loop over batches
    batch_loop: Loop
    epoch_frame: int
    epoch_loop: ast.For | ast.While | None
    feed: Feed
    optimizer: ast.Call
    optimizer_name: ast.expr  # in the frame of `backward`
    model_frame: int | None  # where the model is bound; None where an attribute holds it
    model: ast.expr  # its name there
    backward: ast.Call
    counts_steps: bool = False  # and not epochs

    @property
    def loader(self) -> ast.Call:
        """`DataLoader(…)`, or what gives the batches otherwise."""
        return self.feed.call

    @property
    def loader_name(self) -> ast.expr:
        """What the loop over batches reads, in its frame."""
        return self.feed.name if self.feed.name is not None else self.feed.call

    @property
    def is_attribute(self) -> bool:
        """Whether an object holds the model: ``self.model``."""
        return isinstance(self.model, ast.Attribute)


def find_training(script: Script) -> Training:
    """Find it, or say what is missing.

    Raises:
        AdoptError: There is no training loop, or its parts cannot be told apart.
    """
    backward = _find_backward(script)
    frames = _find_frames(script, backward)
    loops = [(number, loop) for number, frame in enumerate(frames) for loop in script.loops(frame.call)]
    if not loops:
        _refuse_closure(script, backward)
        raise script.refuse(
            backward, "`backward()` is in no loop over batches", "train in a loop over a `DataLoader`"
        )
    step = _find_step(script, frames)
    optimizer = _find_optimizer(script, step)
    batch_frame, batch_loop, feed = find_feed(script, loops, step)
    behind = loops[[loop for _, loop in loops].index(batch_loop) + 1 :]
    outer = [(number, loop) for number, loop in behind if isinstance(loop, ast.For | ast.While)]
    if feed.kind == "phases" and outer:
        outer = outer[1:]  # the loop over phases
    epoch_frame, epoch_loop = outer[0] if outer else (batch_frame, None)
    if isinstance(epoch_loop, ast.While) and feed.kind == "draws":  # whose steps are not epochs
        epoch_loop = None
    if isinstance(epoch_loop, ast.While) and find_counter(script, epoch_loop) is None:
        help_ = "count the epochs with `for epoch in range(…)`, or `while epoch < …` and `epoch += 1`"
        raise script.refuse(epoch_loop, "this `while` counts no epochs, so it cannot be resumed", help_)
    model, scope = _find_model(script, optimizer)
    model_frame = None
    model = _find_held(script, frames, model) or model
    if not isinstance(model, ast.Attribute):
        model_frame, model = _place_model(script, frames, model, scope)
        model = _choose_called(script, frames[min(model_frame, len(frames) - 1)], model)
    return Training(
        frames, batch_frame, batch_loop, epoch_frame, epoch_loop, feed,
        optimizer, find_owner(step), model_frame, model, backward,
        _counts_steps(script, batch_loop, epoch_loop, feed),
    )  # fmt: skip


def _counts_steps(script: Script, batch_loop: Loop, epoch_loop: ast.stmt | None, feed: Feed) -> bool:
    """Whether the training ends after a number of steps, and not of epochs."""
    if isinstance(epoch_loop, ast.While):
        counted = find_counter(script, epoch_loop)
        return counted is not None and not counted.is_epoch
    if feed.maker is not None and isinstance(batch_loop, ast.For) and "len(" in ast.unparse(batch_loop.iter):
        return False
    return epoch_loop is None and (feed.kind == "draws" or feed.maker is not None)


def _find_backward(script: Script) -> ast.Call:
    calls = list_backward_calls(script.module)
    if not calls:
        help_ = "name the script that trains the model"
        raise script.refuse(None, "no training loop: nothing calls `backward()`", help_)
    above = [[up for up, _ in script.module.ancestors(call) if isinstance(up, ast.For)] for call in calls]
    loops = {next(iter(around), None) for around in above}
    if len(set(map(script.scope, calls))) > 1 or len(loops) > 1:
        raise script.refuse(calls[1], "a second training loop calls `backward()` here", APART)
    if len({script.written(call.func) for call in calls}) > 1 and len(_step_owners(script)) > 1:
        raise _refuse_several(script, _step_owners(script))
    return calls[0]


def _step_owners(script: Script) -> dict[str, ast.Call]:
    """The optimizers that are stepped, by their name."""
    owners: dict[str, ast.Call] = {}
    for _, call in script.module.callers.get("step", ()):
        if isinstance(call.func, ast.Attribute):
            owner = find_owner(call)
            if not any(
                word in last_name(owner).lower()
                for word in ("sched", "prof", "stopp", "env", "warmup", "ema")
            ):
                owners.setdefault(script.written(owner), call)
    return owners


def find_owner(step: ast.Call) -> ast.expr:
    """The optimizer of `optimizer.step()` or `scaler.step(optimizer)`."""
    assert isinstance(step.func, ast.Attribute)
    if (
        step.args
        and not isinstance(step.args[0], ast.Lambda)
        and "scal" in ast.unparse(step.func.value).lower()
    ):
        return step.args[0]
    return step.func.value


def _refuse_several(script: Script, owners: dict[str, ast.Call]) -> Exception:
    names = " and ".join(f"`{name}`" for name in list(owners)[:3])
    help_ = "wrap each model by hand: their gradients are averaged one after the other"
    return script.refuse(list(owners.values())[1], f"several optimizers take turns here: {names}", help_)


def _find_step(script: Script, frames: list[Frame]) -> ast.Call:
    scopes = {frame.scope for frame in frames}
    owners = {
        name: call for name, call in _step_owners(script).items()
        if script.scope(call) in scopes and "lr_" not in name
    }  # fmt: skip
    # A scheduler under another name is told by what it was made of.
    if len(owners) > 1:
        owners = {name: call for name, call in owners.items() if "opt" in name.lower()} or owners
    if not owners:
        raise script.refuse(
            frames[0].call,
            "no `optimizer.step()` follows this `backward()`",
            "step the optimizer in the same loop",
        )
    if len(owners) > 1:
        raise _refuse_several(script, owners)
    step = next(iter(owners.values()))
    if step.args and isinstance(step.func, ast.Attribute) and find_owner(step) is step.func.value:
        raise script.refuse(step, *_CLOSURE)
    return step


def _refuse_closure(script: Script, backward: ast.Call) -> None:
    """Refuse a function that an optimizer calls: ``optimizer.step(closure)``."""
    name = getattr(script.scope(backward), "name", None)
    for _, call in script.module.callers.get("step", ()):
        if any(isinstance(argument, ast.Name) and argument.id == name for argument in call.args):
            raise script.refuse(call, *_CLOSURE)


def _find_frames(script: Script, backward: ast.Call) -> list[Frame]:
    frames = [Frame(script.scope(backward), backward)]
    while not isinstance(frames[-1].scope, ast.Module) and len(frames) < 8:
        function = frames[-1].scope
        calls = [call for call in script.calls(function) if script.scope(call) is not function]
        if not calls:
            break
        trains = [call for call in calls if not evaluates(script, function, call)]
        if len(calls) > 1 and len(trains) != 1:
            raise refuse_second_call(script, (trains or calls)[1], frames)
        call = trains[0] if trains else calls[0]
        if len(calls) > 1:
            script.choose(function, call)
        frames.append(Frame(script.scope(call), call, tuple(other for other in calls if other is not call)))
    return frames


def refuse_second_call(script: Script, call: ast.Call, frames: list[Frame]) -> Exception:
    """The error for a second training by the same function."""
    names = {getattr(frame.scope, "name", "") for frame in frames}
    name = next((word for word in names if word and word in ast.unparse(call.func)), ast.unparse(call.func))
    message = f"`{name}` trains, and is called here a second time"
    return script.refuse(call, message, APART)


def _find_optimizer(script: Script, step: ast.Call) -> ast.Call:
    value = script.value(find_owner(step))
    if isinstance(value, ast.Name):  # one of several values
        value = next((bound for _, bound, _ in script.list_bindings(value)), value)
    if isinstance(value, ast.Call) and is_optimizer(script, value):
        return value
    made = [call for _, call in script.module.calls if is_optimizer(script, call)]
    if len(made) == 1:
        return made[0]
    message = f"where `{script.written(find_owner(step))}` is made cannot be told"
    raise script.refuse(step, message, "make it by `optimizer = torch.optim.SGD(model.parameters(), lr=…)`")


def is_optimizer(script: Script, call: ast.Call) -> bool:
    """Whether a call makes an optimizer, itself or in a module beside the script."""
    return makes_optimizer(script.module, call) or find_optimizer_maker(script, call) is not None


class Maker(Struct, frozen=True, eq=False):
    """A function of a module beside the script that returns an optimizer, and the call that it makes."""

    module: Module
    function: Function
    optimizer: ast.Call


def find_optimizer_maker(script: Script, call: ast.Call) -> Maker | None:
    """The function beside the script that a call reaches, if it returns an optimizer."""
    places = [
        place for place in script.around.find(script.module, call.func) if place[0] is not script.module
    ]
    if len(places) != 1:
        return None
    module, function = places[0]
    nodes = list(ast.walk(function))
    made = [node for node in nodes if isinstance(node, ast.Call) and makes_optimizer(module, node)]
    names = {
        getattr(target, "id", "")
        for node in nodes
        if isinstance(node, ast.Assign) and node.value in made
        for target in node.targets
    }
    returned = [
        inner
        for node in nodes
        if isinstance(node, ast.Return) and node.value is not None
        for inner in ast.walk(node.value)
    ]
    returns = any(inner in made or getattr(inner, "id", None) in names for inner in returned)
    return Maker(module, function, made[0]) if returns else None


def makes_optimizer(module: Module, call: ast.Call) -> bool:
    """Whether a call is of the class of an optimizer."""
    name = module.name_of(call.func)
    before, _, last = name.rpartition(".")
    named = last in list_last_names("optimizes") or find_call(name, "optimizes_model") is not None
    return named or (before.endswith("optim") and last[:1].isupper())


def _find_model(script: Script, optimizer: ast.Call) -> tuple[ast.expr, Scope]:
    """The name of the model whose parameters the optimizer gets, and the scope of that name."""
    scope = script.scope(optimizer)
    if (maker := find_optimizer_maker(script, optimizer)) is not None:
        return _find_passed_model(script, optimizer, maker), scope
    if find_call(script.called_name(optimizer), "optimizes_model") is not None and optimizer.args:
        return optimizer.args[0], scope
    parameters = find_passed(optimizer, 0, "params")
    models: dict[str, ast.expr] = {}
    sources, seen = [] if parameters is None else [parameters], set[ast.expr]()
    while sources and not models:  # from groups of parameters to what they are made of, step by step
        nodes = [node for source in sources for node in ast.walk(source)]
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            bases: list[ast.expr] = []
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("parameters", "named_parameters"):
                bases = [_root(call.func.value)]
            elif script.function(call) is None:  # a library's; else what it returns tells
                bases = [value for value in call.args if script.is_model(value)]
            models |= {script.written(base): base for base in bases if script.written(base) not in models}
        seen.update(sources)
        made = (value for node in nodes for value in _list_sources(script, node))
        sources = [value for value in dict.fromkeys(made) if value not in seen]
    if not models:
        help_ = "pass `model.parameters()` to the optimizer"
        raise script.refuse(optimizer, "whose parameters this optimizer gets cannot be told", help_)
    if len(models) > 1:
        names = " and ".join(f"`{name}`" for name in list(models)[:3])
        help_ = "put them into one `nn.Module` whose `forward` gives the loss"
        raise script.refuse(optimizer, f"this optimizer trains several models: {names}", help_)
    model = next(iter(models.values()))
    return model, script.scope(model)


def _list_sources(script: Script, node: ast.AST) -> Iterator[ast.expr]:
    """What a name is bound to, what a list of this name is filled with, and what a function returns."""
    if isinstance(node, ast.Call) and (function := script.function(node)) is not None:
        yield from script.returns(function)
    if not isinstance(node, ast.Name):
        return
    yield from (value for _, value, _ in script.list_bindings(node))
    fills = [call for name in ("append", "extend") for _, call in script.module.callers.get(name, ())]
    for call in fills:
        named = {name.id for name in ast.walk(call.func) if isinstance(name, ast.Name)}
        if node.id in named and script.scope(call) is script.scope(node):
            yield from call.args
            yield from filter(None, map(read_iterable, script.loops(call)))


def _find_passed_model(script: Script, call: ast.Call, maker: Maker) -> ast.expr:
    """The model that a call gives to the function which makes its optimizer."""
    names = {
        last_name(node.value)
        for node in ast.walk(maker.function)
        if isinstance(node, ast.Attribute) and node.attr in ("parameters", "named_parameters")
    }
    taken = [parameter.arg for parameter, _ in list_parameters(maker.function)]
    if (
        taken
        and taken[0] in names
        and isinstance(call.func, ast.Attribute)
        and is_method(maker.module, maker.function)
    ):
        return call.func.value  # a method of the model
    passed = [find_argument(maker.module, call, maker.function, name) for name in taken if name in names]
    given = [value for value in passed if value is not None]
    if not names:  # `make(model.parameters(), …)`
        calls = [
            node for node in ast.walk(call) if isinstance(node, ast.Call) and last_name(node) == "parameters"
        ]
        given = [_root(node.func.value) for node in calls if isinstance(node.func, ast.Attribute)]
    if len(given) != 1:
        where = f"`{Path(maker.module.source.path).name}`, line {maker.function.lineno}"
        message = f"{where}, makes an optimizer of a model that this call does not pass"
        raise script.refuse(call, message, f"pass the model to `{maker.function.name}` as a parameter")
    return given[0]


def _find_held(script: Script, frames: list[Frame], model: ast.expr) -> ast.expr | None:
    """``self.model`` of the object that trains, where the optimizer was made before it."""
    above = (script.module.parents.get(frame.scope) for frame in frames)
    classes = list(dict.fromkeys(class_ for class_ in above if isinstance(class_, ast.ClassDef)))
    bases = (script.classes.get(getattr(base, "id", "")) for class_ in classes for base in class_.bases)
    classes += [class_ for class_ in bases if class_ is not None and class_ not in classes]
    if not classes or isinstance(model, ast.Attribute):
        return None
    made = script.value(model)
    for node in (inner for class_ in classes for inner in ast.walk(class_)):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
            continue
        value = node.value
        while (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr in ("to", "cuda")
        ):
            value = value.func.value
        if isinstance(value, ast.Name | ast.Subscript) and isinstance(made, ast.Call):
            passed = script.value(value)
            if passed is made:
                return node.targets[0]
    return None


def _root(node: ast.expr) -> ast.expr:
    """``model`` of ``model.fc``, ``self.model`` of ``self.model.fc``."""
    while isinstance(node, ast.Attribute) and not (
        isinstance(node.value, ast.Name) and node.value.id == "self"
    ):
        node = node.value
    return node


def _place_model(script: Script, frames: list[Frame], model: ast.expr, scope: Scope) -> tuple[int, ast.expr]:
    """The frame in which the model is bound, and its name there."""
    for _ in range(6):
        if not isinstance(model, ast.Name):
            break
        bound = script.bindings(model.id, scope)
        if not bound and is_parameter(scope, model.id):
            assert not isinstance(scope, ast.Module)
            calls = script.calls(scope)
            passed = script.argument(calls[0], scope, model.id) if len(calls) == 1 else None
            if passed is None:
                break
            model, scope = passed, script.scope(passed)
            continue
        if not bound and not isinstance(scope, ast.Module):
            scope = script.scope(scope)
            continue
        number = next((n for n, frame in enumerate(frames) if frame.scope is scope), None)
        if number is not None:
            return number, model
        if isinstance(scope, ast.Module):
            return len(frames), model  # global; the functions read it by the same name
        returned = _find_returned(script, scope, model)
        if returned is None:
            break
        model, scope = returned
    raise script.refuse(
        model, "where this model is made cannot be told", "make it in the function that trains"
    )


def _choose_called(script: Script, frame: Frame, model: ast.expr) -> ast.expr:
    """The name by which training calls or passes on the model: a compiled one has its own."""
    if not isinstance(model, ast.Name):
        return model
    bound = {
        name: script.bindings(name, scope)
        for scope in (script.scope(model),)
        for name in script.list_bound(scope)
    }
    group = {model.id}
    for _ in bound:
        for name, values in bound.items():
            others = {other for _, value, _ in values for other in _list_renamed(value)}
            if others and not group.isdisjoint({name, *others}):
                group |= {name, *others}
    calls = [
        node
        for node in ast.walk(frame.scope)
        if isinstance(node, ast.Call) and not is_without_gradient(script, node)
    ]
    used = [
        node for call in calls for node in ((call.func, *call.args) if call is frame.call else (call.func,))
    ]
    names = {node.id: node for node in used if isinstance(node, ast.Name) and node.id in group}
    return model if model.id in names or len(names) != 1 else next(iter(names.values()))


def _list_renamed(value: ast.expr) -> set[str]:
    """The variables whose model an expression gives, as it is, compiled, or taken out of a wrapper."""
    if isinstance(value, ast.IfExp):
        return _list_renamed(value.body) | _list_renamed(value.orelse)
    if isinstance(value, ast.Call) and last_name(value) in ("compile", "getattr") and value.args:
        return _list_renamed(value.args[0])
    if isinstance(value, ast.Attribute) and value.attr in ("module", "_orig_mod"):
        return _list_renamed(value.value)
    return {value.id} if isinstance(value, ast.Name) else set()


def _find_returned(script: Script, function: Function, model: ast.Name) -> tuple[ast.expr, Scope] | None:
    """The variable of the caller that gets the model: ``model, optimizer = build()``."""
    for value in script.returns(function):
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        for position, part in enumerate(parts):
            if not isinstance(part, ast.Name) or part.id != model.id:
                continue
            for call in script.calls(function):
                above = script.module.parents.get(call)
                if isinstance(above, ast.Assign) and len(above.targets) == 1:
                    target = above.targets[0]
                    if isinstance(target, ast.Tuple) and position < len(target.elts):
                        target = target.elts[position]
                    if isinstance(target, ast.Name):
                        return target, script.scope(call)
    return None


def lift_name(script: Script, training: Training, node: ast.expr, frames: tuple[int, int]) -> str | None:
    """What an outer frame calls the value that an inner one names; None where it has no name for it."""
    for number in range(*frames):
        function, call = training.frames[number].scope, training.frames[number + 1].call
        if isinstance(node, ast.Name) and is_parameter(function, node.id):
            assert not isinstance(function, ast.Module)
            value = script.argument(call, function, node.id)
            if value is None:
                return None
            node = value
        elif isinstance(node, ast.Name) and script.bindings(node.id, function):
            return None
        elif isinstance(node, ast.Attribute) and isinstance(call.func, ast.Attribute):
            base = script.written(call.func.value)
            if base != "self":
                return f"{base}.{node.attr}"
    return script.written(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else None


Loops: TypeAlias = list[tuple[int, Loop]]  # with the frames that they are in


def find_feed(script: Script, loops: Loops, step: ast.Call) -> tuple[int, Loop, Feed]:
    """The loop over batches with its frame, and what feeds it.

    Raises:
        AdoptError: Nothing that can be divided feeds it, or several loaders do.
    """
    inner = [
        (number, loop)
        for number, loop in loops
        if script.scope(loop) is not script.scope(step) or script.is_under(step, loop)
    ]  # others add up gradients
    for iterated in chain(_list_iterated(script, loops), _list_repeated(script, inner)):
        _refuse_second(script, iterated[1], iterated[2])
        return iterated
    loader = next(iter(script.module.called("DataLoader")), None)
    for number, loop in inner if loader is None else ():
        feed = find_stream(script, loop)
        if feed is not None:
            return number, loop, feed
    if loader is None:
        message = "no `DataLoader` feeds this loop, so nothing can divide the rows among processes"
        raise script.refuse(loops[0][1], message, "read the batches from a `torch.utils.data.DataLoader`")
    message = "which `DataLoader` feeds this loop cannot be told"
    raise script.refuse(loops[0][1], message, "name it: `for batch in train_loader`, made by `DataLoader(…)`")


def _list_iterated(script: Script, loops: Loops) -> Iterator[tuple[int, Loop, Feed]]:
    """What a loop iterates over."""
    for find in (find_repeated, _find_loader, find_phases, find_beside):
        for number, loop in loops:
            iterable = read_iterable(loop)
            for node in ast.walk(iterable) if iterable is not None else ():
                inline = isinstance(node, ast.Call) and find is _find_loader
                if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or inline:
                    assert isinstance(node, ast.expr)
                    feed = find(script, loop, node)
                    if feed is not None:
                        yield number, loop, feed


def _list_repeated(script: Script, loops: Loops) -> Iterator[tuple[int, Loop, Feed]]:
    """What a loop takes by ``next``."""
    for number, loop in loops:
        for taken in list_taken(script, loop):
            feed = find_repeated(script, loop, taken)
            if feed is not None:
                yield number, loop, feed


def _refuse_second(script: Script, loop: Loop, feed: Feed) -> None:
    """Refuse a second loader in the same loop: only one gets a sampler."""
    iterable = read_iterable(loop)
    nodes = [*list_taken(script, loop), *(ast.walk(iterable) if iterable is not None else ())]
    for node in nodes:
        if not isinstance(node, ast.Name | ast.Call):
            continue
        for find in (find_repeated, _find_loader)[isinstance(node, ast.Call) :]:
            other = find(script, loop, node)
            if other is not None and other.call is not feed.call:
                help_ = "read both in one dataset, whose rows a sampler can divide"
                raise script.refuse(node, f"`{script.written(node)}` feeds this loop too", help_)


def _find_loader(script: Script, loop: Loop, node: ast.expr) -> Feed | None:
    if isinstance(node, ast.Call):  # `for batch in DataLoader(rows, …)`
        if not script.called_name(node).endswith("DataLoader"):
            return None
        refuse_graphs(script, node)
        return Feed("loader", node)
    scope = script.scope(loop)
    loader, wrappers = unwrap_loader(script, node)
    for wrapper in wrappers:
        if isinstance(node, ast.Name) and script.scope(wrapper) is scope:
            node = wrapper.args[0]
    iterable = read_iterable(loop)
    if loader is None or (iterable is not None and any(loader is inner for inner in ast.walk(iterable))):
        return None
    return Feed("loader", loader, node)
