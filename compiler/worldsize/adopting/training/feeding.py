"""What feeds a loop: loaders, also of modules beside or begun anew, draws, ranges, streams."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from worldsize.adopting.model import find_role
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Loop, read_iterable
from worldsize.adopting.training.loops import is_marked, without_gradient
from worldsize.adopting.training.refusals import refuse_graphs
from worldsize.facts.library_calls import find_call
from worldsize.scripts.bindings import Function
from worldsize.scripts.module import last_name

Kind = Literal["loader", "phases", "beside", "draws", "ranges", "columns"]
_GENERATORS = ("integers", "choice", "permutation", "randint", "sample")
_DEPTH = 4
_WRAPPERS = 6  # around each other


class Feed(Struct, eq=False):
    """What gives the batches of a loop."""

    kind: Kind
    call: ast.Call  # that makes them: `DataLoader(…)`, `get_batch(…)`, `range(…)`, `batchify(…)`
    name: ast.expr | None = None  # what the loop reads, where it has a name
    libraries: tuple[str, ...] = ()  # whose random numbers choose the rows
    maker: ast.Call | None = None  # of an iterator over the loader, which may begin it anew
    phase: ast.expr | None = None  # in a loop over phases, the key of the training rows


def find_beside(script: Script, _loop: Loop, node: ast.expr) -> Feed | None:
    """A loader that a function of a module beside the script makes."""
    if not isinstance(node, ast.Name):
        return None
    named = script.value(node)
    bound = script.list_bindings(named) if isinstance(named, ast.Name) else []
    for value, name in (*((value, named) for _, value, _ in bound), (named, node)):
        if isinstance(value, ast.Call) and find_maker(script, value) is not None:
            return Feed("beside", value, name)
    return None


def find_maker(script: Script, call: ast.Call) -> Function | None:
    """The function beside the script that makes a `DataLoader`, if a call reaches one."""
    module, function = script.find_beside(call) or (script.module, None)
    loaders = module.called("DataLoader") if function is not None else ()
    makes = any(above is function for loader in loaders for above, _ in module.ancestors(loader))
    return function if makes else None


def find_stream(script: Script, loop: Loop) -> Feed | None:
    """Columns of a stream, slices of a range, or draws of the loop itself."""
    counted = _find_strides(loop)
    if counted is not None and (made := _find_columns(script, loop)) is not None:
        return Feed("columns", made)
    if counted is not None and _slices_rows(script, loop, counted):
        return Feed("ranges", counted)
    drawn = dict(_list_draws(script, loop, _DEPTH))
    if not drawn:
        return None
    unseeded = next((call for call, library in drawn.items() if not library), None)
    if unseeded is not None:
        help_ = 'seed it with the number of the process added, `seed + int(os.environ.get("RANK", "0"))`'
        raise script.refuse(unseeded, "this generator draws the same rows in every process", help_)
    libraries = tuple(sorted(set(drawn.values())))
    return Feed("draws", next(iter(drawn)), libraries=libraries)


def _find_strides(loop: Loop) -> ast.Call | None:
    """``range(0, n, size)`` of a loop over its slices."""
    for node in ast.walk(loop.iter) if isinstance(loop, ast.For) else ():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range" and len(node.args) == 3:
            return node
    return None


def _slices_rows(script: Script, loop: Loop, counted: ast.Call) -> bool:
    """Whether the loop takes ``rows[start : start + size]`` of each of its numbers."""
    assert isinstance(loop, ast.For)
    size = script.written(counted.args[2])
    names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for node in ast.walk(loop):
        if not isinstance(node, ast.Slice) or not isinstance(node.upper, ast.BinOp):
            continue
        above = script.module.parents[node]
        first = isinstance(above, ast.Subscript) or (isinstance(above, ast.Tuple) and above.elts[0] is node)
        parts = {script.written(part) for part in (node.upper.left, node.upper.right)}
        lower = node.lower.id if isinstance(node.lower, ast.Name) else None
        if first and lower in names and parts == {lower, size} and isinstance(node.upper.op, ast.Add):
            value = script.value(counted.args[0])
            return isinstance(value, ast.Constant) and value.value == 0
    return False


def _find_columns(script: Script, loop: Loop) -> ast.Call | None:
    """The call that lays the stream of the loop out in columns: ``batchify(tokens, batch_size)``."""
    for node in ast.walk(loop):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        for _, value, position in script.list_bindings(node):
            if position is None and isinstance(value, ast.Call) and lays_out_columns(script, value):
                return value
    return None


def lays_out_columns(script: Script, call: ast.Call) -> tuple[ast.expr, bool] | None:
    """The number of columns that a function makes, and whether they are along the second axis."""
    function = script.function(call)
    if function is None or function.name == "__init__":
        return None
    text = ast.unparse(function)
    name = next((word.arg for word in function.args.args if find_role(word.arg) == "batch_size"), None)
    size = script.argument(call, function, name) if name is not None else None
    if size is None or not (f".view({name}, " in text or f".reshape({name}, " in text):
        return None
    return size, ".t()" in text or ".transpose(0, 1)" in text or ".T" in text


def _list_draws(script: Script, top: ast.AST, depth: int) -> Iterator[tuple[ast.Call, str]]:
    """The calls that choose rows at random, with their library; none for a generator of the script."""
    for node in ast.walk(top):
        if not isinstance(node, ast.Call) or without_gradient(script, node, top):
            continue
        name = script.module.name_of(node.func)
        if find_call(name, "draws_rows") is not None:
            is_own = any(keyword.arg == "generator" for keyword in node.keywords)
            yield node, "" if is_own else name.partition(".")[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _GENERATORS:
            value = script.value(node.func.value)
            made = script.called_name(value)
            if made.endswith(("default_rng", "RandomState", "random.Random")):
                yield node, ""
        function = script.function(node)
        if function is None or not depth or _belongs_to_model(script, function):
            continue
        if not is_marked(function):
            yield from _list_draws(script, function, depth - 1)


def _belongs_to_model(script: Script, function: ast.AST) -> bool:
    above = script.module.parents.get(function)
    return isinstance(above, ast.ClassDef) and any("Module" in ast.unparse(base) for base in above.bases)


def find_batch_size(script: Script, feed: Feed, loop: Loop) -> ast.expr | None:
    """How many rows of a batch the draws of a loop choose: what is named so there, or is passed to them."""
    tops: list[ast.AST] = [script.scope(feed.call), loop]
    for top in tops:
        if isinstance(top, ast.Module):
            continue
        for node in ast.walk(top):
            if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if find_role(last_name(node)) == "batch_size":
                return node
    return None


def is_wrapper(script: Script, value: ast.expr) -> bool:
    """Whether an expression passes on what it gets, as a progress bar does."""
    if not isinstance(value, ast.Call) or not value.args:
        return False
    return script.module.name_of(value.func).rpartition(".")[2] in ("tqdm", "enumerate", "track", "iter")


def unwrap_loader(script: Script, node: ast.expr) -> tuple[ast.Call | None, list[ast.Call]]:
    """The `DataLoader` that an expression stands for, and what is laid around it, from the outside in.

    Raises:
        AdoptError: It samples from one graph.
    """
    wrappers: list[ast.Call] = []
    value: ast.expr | None = script.value(node)
    while len(wrappers) < _WRAPPERS and isinstance(value, ast.Call) and is_wrapper(script, value):
        wrappers.append(value)
        value = script.follow_wrapped(value)
    if not isinstance(value, ast.Call) or not script.module.name_of(value.func).endswith("DataLoader"):
        return None, wrappers
    refuse_graphs(script, value)
    return value, wrappers


def find_phases(script: Script, _loop: Loop, node: ast.expr) -> Feed | None:
    """The training loader of a mapping that the loop reads by the name of its phase."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name):
        return None
    phases = _find_phases(script, node)
    mapping = script.value(node.value)
    key = next((phase for phase in phases if str(phase.value).lower().startswith("train")), None)
    if key is None:
        return None
    call: ast.expr | None = None
    if isinstance(mapping, ast.DictComp):
        call = mapping.value
    elif isinstance(mapping, ast.Dict):
        pairs = zip(mapping.keys, mapping.values, strict=True)
        call = next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key.value), None)
        if call is not None:
            call = script.value(call)
    if isinstance(call, ast.Call) and script.called_name(call).endswith("DataLoader"):
        return Feed("phases", call, node, phase=key)
    return None


def _find_phases(script: Script, node: ast.Subscript) -> list[ast.Constant]:
    """The names that the loop around takes one after the other."""
    assert isinstance(node.slice, ast.Name)
    for above, _ in script.module.ancestors(node):
        if isinstance(above, ast.For) and getattr(above.target, "id", None) == node.slice.id:
            parts = above.iter.elts if isinstance(above.iter, ast.List | ast.Tuple) else []
            return [part for part in parts if isinstance(part, ast.Constant)]
    return []


def name_phase(script: Script, feed: Feed) -> str:
    """The condition that the loop is in the phase that trains."""
    assert isinstance(feed.name, ast.Subscript)
    assert feed.phase is not None
    return f"{script.written(feed.name.slice)} == {script.written(feed.phase)}"


def name_loader(script: Script, feed: Feed) -> str:
    """The loader of the training rows outside of the loop over phases."""
    assert isinstance(feed.name, ast.Subscript)
    assert feed.phase is not None
    return f"{script.written(feed.name.value)}[{script.written(feed.phase)}]"


_REASON = "the rows come in a new order each time around"


def list_taken(script: Script, loop: Loop) -> Iterator[ast.expr]:
    """What a loop takes batches from by ``next``, beside what it iterates over."""
    for node in ast.walk(loop):
        takes = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "next"
        if isinstance(node, ast.Call) and takes and node.args and not without_gradient(script, node, loop):
            yield node.args[0]


def find_repeated(script: Script, loop: Loop, node: ast.expr) -> Feed | None:
    """The loader behind ``cycle(loader)``, or behind a name of such an iterator."""
    for call in _list_makers(script, loop, node):
        for argument in call.args:
            loader, _ = unwrap_loader(script, argument)
            if loader is not None:
                return Feed("loader", loader, argument, maker=call)
    return None


def _list_makers(script: Script, loop: Loop, node: ast.expr) -> Iterator[ast.Call]:
    """The calls that make the iterator: around a name in the head of a loop, or bound to that name."""
    iterable = read_iterable(loop)
    inside = {id(inner) for inner in ast.walk(iterable)} if iterable is not None else set()
    for above, _ in script.module.ancestors(node):
        if id(above) not in inside:
            break
        if isinstance(above, ast.Call) and _repeats(script, above):
            yield above
    values: list[ast.expr] = [node] if isinstance(node, ast.Call) else []
    if isinstance(node, ast.Name):
        values += [value for _, value, _ in script.bindings(node.id, script.scope(loop))]
    for value in values:
        for call in ast.walk(value):
            makes = isinstance(call, ast.Call) and getattr(call.func, "id", "") == "iter"
            if isinstance(call, ast.Call) and call.args and (makes or _repeats(script, call)):
                yield call


def _repeats(script: Script, call: ast.Call) -> bool:
    is_cycle = script.module.name_of(call.func) == "itertools.cycle"
    return is_cycle or _find_generator(script, call) is not None


def _find_generator(script: Script, call: ast.Call) -> tuple[Function, ast.stmt, ast.expr] | None:
    """The function of the script that repeats a loader: what gives its batches there, and the loader."""
    function = script.function(call)
    for node in ast.walk(function) if function is not None else ():
        if not isinstance(script.module.parents.get(node), ast.While):
            continue
        assert function is not None
        if isinstance(node, ast.For) and any(isinstance(inner, ast.Yield) for inner in ast.walk(node)):
            return function, node, _unwrap(node.iter)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.YieldFrom):
            return function, node, _unwrap(node.value.value)
    return None


def begin_anew(script: Script, feed: Feed, loop: Loop) -> None:
    """Draw another order wherever the iterator of a feed begins its loader anew.

    Raises:
        AdoptError: The script's own generator serves other loaders too.
    """
    assert feed.maker is not None
    if script.module.name_of(feed.maker.func) == "itertools.cycle":
        help_ = "iterate over the loader again in a generator of your own, `while True: yield from loader`"
        message = "`itertools.cycle` repeats the batches of the first epoch, in their order"
        script.leave(feed.maker, message, help_)
    elif (generator := _find_generator(script, feed.maker)) is not None:
        function, inner, loader = generator
        calls = script.calls(function)
        if len(calls) > 1:
            help_ = "give the training rows a generator of their own"
            raise script.refuse(calls[1], f"`{function.name}` repeats a second loader here", help_)
        _set_next_epoch(script, inner, loader)
    else:
        for node in ast.walk(loop):  # where the loop itself makes the iterator again, as at its end
            if isinstance(node, ast.Call) and script.written(node) == script.written(feed.maker):
                _set_next_epoch(script, script.statement(node), node.args[0])


def _unwrap(node: ast.expr) -> ast.expr:
    """``loader`` of ``tqdm(enumerate(loader))``."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return node


def _set_next_epoch(script: Script, statement: ast.stmt, loader: ast.expr) -> None:
    name = script.written(loader)
    line = f"{name}.sampler.set_epoch({name}.sampler.epoch + 1)"
    script.insert_before(statement, [line], "WS902", _REASON)
