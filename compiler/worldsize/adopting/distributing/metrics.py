"""Print the metrics of all rows, and let all processes decide by the same numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from worldsize.adopting.distributing.wrapping import list_evaluations
from worldsize.adopting.model import find_role
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Loop, read_iterable, walk_outside
from worldsize.adopting.training.feeding import name_phase
from worldsize.adopting.training.search import Training
from worldsize.facts.library_calls import find_call
from worldsize.scripts.bindings import Scope
from worldsize.scripts.module import last_name

_HELPER = '''def {name}(value):
    """{what} over all processes."""
{place}    total = torch.as_tensor(value, dtype=torch.float64).detach().clone(){move}
    dist.all_reduce(total)
    return {result}'''
_STOPS = re.compile(r"stop|patience", re.IGNORECASE)  # `early_stopping(loss)` compares too
_AFTER = "show it behind this loop, where it is of all rows"
_REASON = "the metric is of the rows of all processes"


def reduce_metrics(script: Script, training: Training, header: Header) -> None:
    """Reduce what the loop over batches adds up or collects, and what the end of training depends on."""
    names = {"average": script.new_name("average"), "add_up": script.new_name("add_up")}
    used: set[str] = set()
    loop = training.batch_loop
    nodes = list(walk_outside(loop, list_evaluations(script, training, loop)))
    lines = list(_reduce_sums(script, training, nodes, names=names, used=used))
    lines += _reduce_lists(script, training, nodes, names, used)
    lines += _reduce_meters(script, loop, nodes, names=names, used=used)
    if lines and (condition := _find_condition(script, training)) is not None:
        lines = [f"if {condition}", *(f"    {line}" for line in lines)]
    if lines:
        script.insert_after(script.statement(loop), lines, None, _REASON)
    for name, statement in _list_deciding(script, training, set(list_sums(nodes))):
        part = _find_part(script, training, name)
        if part is not None:  # it is not a number itself
            message = f"`{ast.unparse(part)}` decides when training ends, and each process has its own"
            script.leave(statement, message, "let all processes decide by the mean over them")
            continue
        used.add("average")
        reason = "all processes decide by the same number when training ends"
        script.insert_after(statement, [f"{name} = {names['average']}({name})"], "WS954", reason)
    _sum_rates(script, training, header, nodes)
    _write_helpers(header, names, used)


_RATE = "the rows of all processes are in the rate"


def _sum_rates(script: Script, training: Training, header: Header, nodes: Nodes) -> None:
    """Multiply rows by the number of processes where a time divides them: ``seen / (end - start)``."""
    loop, world_size = training.batch_loop, header.names.world_size
    scopes = {frame.scope for frame in training.frames}
    evaluations = list_evaluations(script, training, loop)
    target = loop.target if isinstance(loop, ast.For) else loop
    batch = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    counted = [
        ast.unparse(node.target)
        for node in nodes
        if isinstance(node, ast.AugAssign) and _counts_rows(script, node.value, batch, ())
    ]
    summed = _list_added_up(script, training, nodes)
    for node in script.nodes(ast.BinOp):
        is_rate = isinstance(node.op, ast.Div) and _is_elapsed(script, node.right)
        if not is_rate or script.scope(node) not in scopes:
            continue
        names = [name for name in counted if script.is_under(node, loop) or name not in summed]
        is_apart = any(script.is_under(node, evaluation) for evaluation in evaluations)
        if is_apart or not _counts_rows(script, node.left, batch, names):
            continue
        behind = script.text[script.end(node.left) :].lstrip()
        if script.written(node.left) != ast.unparse(node.left) or not behind.startswith("/"):
            script.leave(node, "this rate is of the rows of one process", f"multiply it by `{world_size}`")
            continue
        script.insert_behind(node.left, f" * {world_size}", None, _RATE)


def _list_added_up(script: Script, training: Training, nodes: Nodes) -> list[str]:
    """The sums of the loop over batches that are of all processes behind it."""
    scope = training.frames[training.batch_frame].scope
    return [name for name in list_sums(nodes) if _is_per_row(script, scope, name, training)]


def _is_elapsed(script: Script, node: ast.expr) -> bool:
    """Whether an expression is the time since another: ``time.time() - start``, also by a name."""
    times = [inner for tree in _list_values(script, node) for inner in ast.walk(tree)]
    passed = (inner.left for inner in times if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub))
    return any(find_call(script.called_name(script.value(end)), "tells_time") for end in passed)


def _list_values(script: Script, node: ast.expr) -> list[ast.expr]:
    """An expression, and what its variables stand for."""
    return [node, *(script.value(part) for part in ast.walk(node) if isinstance(part, ast.Name))]


def _counts_rows(script: Script, node: ast.expr, batch: Collection[str], names: Collection[str]) -> bool:
    """Whether an expression has the rows of one process: those of a batch, its size, or what counts them."""
    for inner in (inner for tree in _list_values(script, node) for inner in ast.walk(tree)):
        is_name = isinstance(inner, ast.Name | ast.Attribute)
        if is_name and (ast.unparse(inner) in names or find_role(last_name(inner)) == "batch_size"):
            return True
        sized = inner.args[:1] if isinstance(inner, ast.Call) and last_name(inner) == "len" else []
        if isinstance(inner, ast.Attribute) and inner.attr in ("size", "shape", "numel"):
            sized = [inner.value]
        if any(isinstance(part, ast.Name) and part.id in batch for part in sized):
            return True
    return False


def _is_read_after(script: Script, loop: Loop, name: str) -> bool:
    """Whether a sum or a meter starts right before the loop, and is read behind it."""
    statement, scope = script.statement(loop), script.scope(loop)
    block = script.block(statement)
    starts = [bound for bound, _, _ in script.bindings(name, scope)]
    fresh = bool(starts) and all(start in block[: block.index(statement)] for start in starts)
    reads = (read for read in script.nodes(ast.Name) if read.id == name)
    end = statement.end_lineno or 0
    return fresh and any(read.lineno > end and script.scope(read) is scope for read in reads)


def _find_condition(script: Script, training: Training) -> str | None:
    """When the rows of the loop are divided; None where they always are."""
    if training.feed.kind == "phases":
        return f"{name_phase(script, training.feed)}:"
    frames = training.frames[training.batch_frame : training.epoch_frame + 1]
    made = script.scope(training.loader) is frames[0].scope
    if made or training.feed.name is None or not any(frame.others for frame in frames):
        return None
    test = f"isinstance({script.written(training.feed.name)}.sampler, DistributedSampler)"
    return f"{test}:  # in an evaluation each process reads all rows"


def _reduce_sums(
    script: Script, training: Training, nodes: Nodes, *, names: dict[str, str], used: set[str]
) -> Iterator[str]:
    scope = training.frames[training.batch_frame].scope
    sums = list_sums(nodes)
    read = _list_read(training.batch_loop, [*sums, *list_sums(nodes, anew=True)])
    for name, node in read.items():
        script.leave(node, f"`{name}` is of the rows of the first process here", _AFTER)
    for name in sums:
        if name not in read or _is_read_after(script, training.batch_loop, name):
            how = "add_up" if _is_per_row(script, scope, name, training) else "average"
            used.add(how)
            yield f"{name} = {names[how]}({name})"


def _reduce_lists(
    script: Script, training: Training, nodes: Nodes, names: dict[str, str], used: set[str]
) -> Iterator[str]:
    for collected in _leave_local(script, training.batch_loop, list_lists(script, training, nodes)):
        used |= {"average", "lists"}
        yield f"{collected.name}[:] = {names['average']}({collected.name})"


def _reduce_meters(
    script: Script, loop: Loop, nodes: Nodes, *, names: dict[str, str], used: set[str]
) -> Iterator[str]:
    add_up = names["add_up"]
    for meter in _leave_local(script, loop, list_meters(script, loop, nodes)):
        name = meter.name
        used.add("add_up")
        yield f"{name}.sum, {name}.count = {add_up}({name}.sum), {add_up}({name}.count)"
        if meter.keeps_average:
            yield f"{name}.avg = {name}.sum / {name}.count"


def _leave_local(script: Script, loop: Loop, candidates: Iterable[Collected]) -> Iterator[Collected]:
    """Those that can be reduced; the others, and those that the loop itself reads, are left to the author."""
    collected = {candidate.name: candidate for candidate in candidates}
    shown = list_shown(script, loop, list(collected))
    for name, meter in collected.items():
        if name in shown or not meter.can_reduce:
            message = f"`{name}` is of the rows of the first process here"
            script.leave(shown.get(name, meter.call), message, _AFTER)
        if meter.can_reduce:
            yield meter


def _write_helpers(header: Header, names: dict[str, str], used: set[str]) -> None:
    place = '    device = "cuda" if torch.cuda.is_available() else "cpu"\n' if header.on_gpu else ""
    where = {"place": place, "move": ".to(device)" if header.on_gpu else ""}
    share = f" / {header.names.world_size}"
    plain = f"(total{share}).tolist()" if "lists" in used else f"total.item(){share}"
    mean = "The mean of a number, or of each of a list," if "lists" in used else "The mean of a number"
    results = {
        "average": (mean, f"total{share} if torch.is_tensor(value) else {plain}"),
        "add_up": ("The sum of a number", "total if torch.is_tensor(value) else total.item()"),
    }
    for how, (what, result) in results.items():
        if how in used:
            header.helpers.append(_HELPER.format(name=names[how], what=what, **where, result=result))


def list_sums(nodes: Nodes, *, anew: bool = False) -> list[str]:
    """The variables to which a loop adds numbers of a batch; ``anew`` are those that it also sets."""
    names: dict[str, bool] = {}
    for node in nodes:
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add)
            and isinstance(node.target, ast.Name)
        ):
            names[node.target.id] = names.get(node.target.id, True) and is_measured(node.value)
    plain = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [name for name, measured in names.items() if measured and (name in plain) is anew]


def _list_read(loop: Loop, names: list[str]) -> dict[str, ast.AST]:
    """Those that the loop itself reads, as a progress bar does."""
    return {
        node.id: node
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
    }


def _is_per_row(script: Script, scope: Scope, name: str, training: Training) -> bool:
    """Whether a sum is divided by the number of all rows, and not by what the process has counted."""
    loaders = {script.written(training.loader_name)}
    iterable = read_iterable(training.batch_loop)
    if iterable is not None:
        parts = [part for part in ast.walk(iterable) if isinstance(part, ast.Name | ast.Attribute)]
        loaders |= {script.written(part) for part in parts}
    for node in script.nodes(ast.BinOp):
        if not isinstance(node.op, ast.Div) or script.scope(node) is not scope:
            continue
        if not any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node.left)):
            continue
        right = node.right
        if isinstance(right, ast.Subscript):  # `sizes[phase]`
            mapping = script.value(right.value)
            values = [mapping.value] if isinstance(mapping, ast.DictComp) else getattr(mapping, "values", [])
            right = values[0] if isinstance(values, list) and values else right
        divisor = script.value(right)
        if isinstance(divisor, ast.Call) and getattr(divisor.func, "id", "") == "len" and divisor.args:
            counted = divisor.args[0]
            while isinstance(counted, ast.Call) and len(counted.args) == 1:  # `len(list(loader))`
                counted = counted.args[0]
            return script.written(counted) not in loaders
    return False


def _find_part(script: Script, training: Training, name: str) -> ast.expr | None:
    """Where the loop over epochs reads a part of a result: ``result.loss``, and no method of a number."""
    for node in ast.walk(training.epoch_loop) if training.epoch_loop is not None else ():
        if not isinstance(node, ast.Attribute | ast.Subscript) or getattr(node.value, "id", "") != name:
            continue
        call = script.module.parents.get(node)
        if not (isinstance(call, ast.Call) and call.func is node):
            return node
    return None


def _list_deciding(script: Script, training: Training, averaged: set[str]) -> list[tuple[str, ast.stmt]]:
    """The results of evaluation in the loop over epochs that its end, or its schedule, depends on."""
    loop = training.epoch_loop
    if loop is None:
        return []
    ends = any(
        isinstance(node, ast.Break)
        for node in ast.walk(loop)
        if not script.is_under(node, training.batch_loop)
    )
    steps = {
        argument.id
        for _, call in script.module.callers.get("step", ())
        for argument in call.args
        if isinstance(argument, ast.Name)
    }
    compared = {
        inner.id
        for node in ast.walk(loop)
        if isinstance(node, ast.Compare)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name)
    }
    predicates = (
        node
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and _STOPS.search(ast.unparse(node.func))
    )
    compared |= {arg.id for node in predicates for arg in node.args if isinstance(arg, ast.Name)}
    chain = {id(frame.call) for frame in training.frames}
    deciding: list[tuple[str, ast.stmt]] = []
    for statement in loop.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        if id(statement.value) in chain or script.function(statement.value) is None:
            continue
        for target in statement.targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for part in parts:
                name = part.id if isinstance(part, ast.Name) else None
                if name and name not in averaged and (name in steps or (ends and name in compared)):
                    deciding.append((name, statement))
    return deciding


_MEASURES = frozenset({"item", "detach", "sum", "size", "numel", "tolist"})
_PARTS = frozenset({"sum", "count"})
Nodes: TypeAlias = Sequence[ast.AST]


class Collected(Struct, frozen=True, eq=False):
    """A list or meter that a loop over batches fills."""

    name: str
    call: ast.Call  # that fills it
    can_reduce: bool  # all processes have it alike long, or from the loop's start to its end
    keeps_average: bool = False  # a meter, beside its sum


def is_measured(value: ast.AST) -> bool:
    """Whether an expression is of a batch: a number of a tensor, or the length of one."""
    calls = (node.func for node in ast.walk(value) if isinstance(node, ast.Call))
    text = ast.unparse(value)
    return (
        any(isinstance(func, ast.Attribute) and func.attr in _MEASURES for func in calls)
        or "len(" in text
        or "shape" in text
    )


def list_lists(script: Script, training: Training, nodes: Nodes) -> Iterator[Collected]:
    """The lists to which the loop, of which the nodes are, appends numbers of a batch.

    They are reduced if each entry is a mean over rows, and one is appended for each batch.
    """
    loop = training.batch_loop
    assert isinstance(training.backward.func, ast.Attribute)
    losses = {f"{script.written(training.backward.func.value)}.item()"}
    leaves = any(isinstance(node, ast.Continue | ast.Break) for node in ast.walk(loop))
    for node in nodes:
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "append" or not node.args:
            continue
        assert isinstance(node.func, ast.Attribute)
        if not is_measured(node.args[0]):
            continue
        text = ast.unparse(node.args[0])
        is_mean = text in losses or ".mean()" in text
        always = isinstance(loop, ast.For | ast.While) and script.statement(node) in loop.body and not leaves
        can_reduce = always and is_mean and text.endswith(".item()")
        yield Collected(script.written(node.func.value), node, can_reduce)


def list_meters(script: Script, loop: Loop, nodes: Nodes) -> Iterator[Collected]:
    """The meters of the script that the loop, of which the nodes are, updates with numbers of a batch.

    They are reduced if they are made right before the loop and read behind it.
    """
    for node in nodes:
        func = node.func if isinstance(node, ast.Call) else None
        if (
            not isinstance(func, ast.Attribute)
            or func.attr != "update"
            or not isinstance(func.value, ast.Name)
        ):
            continue
        assert isinstance(node, ast.Call)
        name = func.value.id
        bound = script.bindings(name, script.scope(loop))
        kept = _list_kept(script, bound[0][1]) if len(bound) == 1 else frozenset()
        if not any(map(is_measured, node.args)) or not kept >= _PARTS:
            continue
        yield Collected(name, node, _is_read_after(script, loop, name), "avg" in kept)


def _list_kept(script: Script, value: ast.expr) -> frozenset[str]:
    """The attributes that an object of the script's own class sets, or of one beside the script."""
    name = getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""
    class_ = script.find_class(name)
    if class_ is None:
        return frozenset()
    nodes = (node for node in ast.walk(class_) if isinstance(node, ast.Attribute))
    return frozenset(node.attr for node in nodes if isinstance(node.ctx, ast.Store))


def list_shown(script: Script, loop: Loop, names: list[str]) -> dict[str, ast.AST]:
    """Those that the loop itself reads, as a progress bar does, and not only changes."""
    shown: dict[str, ast.AST] = {}
    for node in ast.walk(loop):
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Store):
            continue
        above = script.module.parents[node]
        changes = isinstance(above, ast.Attribute) and above.attr in ("append", "update", "reset")
        if not changes and script.written(node) in names:
            shown.setdefault(script.written(node), node)
    return shown
