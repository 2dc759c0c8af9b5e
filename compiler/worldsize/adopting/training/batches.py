"""Which loop takes the batches, and what gives them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Loop, Tracer, is_under, read_iterable
from worldsize.adopting.training.feeding import Feed, find_beside, find_phases, find_stream, unwrap_loader
from worldsize.adopting.training.refusals import refuse_graphs
from worldsize.adopting.training.repeated_loaders import find_repeated, list_taken

Loops: TypeAlias = list[tuple[int, Loop]]  # with the frames that they are in


def find_feed(script: Script, tracer: Tracer, loops: Loops, step: ast.Call) -> tuple[int, Loop, Feed]:
    """The loop over batches with its frame, and what feeds it.

    Raises:
        AdoptError: Nothing that can be divided feeds it, or several loaders do.
    """
    inner = [(number, loop) for number, loop in loops if not _only_adds_up(script, loop, step)]
    for found in chain(_list_iterated(script, tracer, loops), _list_repeated(script, tracer, inner)):
        _refuse_second(script, tracer, found[1], found[2])
        return found
    loader = next(iter(script.module.called("DataLoader")), None)
    for number, loop in inner if loader is None else ():
        feed = find_stream(script, tracer, loop)
        if feed is not None:
            return number, loop, feed
    if loader is None:
        message = "no `DataLoader` feeds this loop, so nothing can divide the rows among processes"
        raise script.refuse(loops[0][1], message, "read the batches from a `torch.utils.data.DataLoader`")
    message = "which `DataLoader` feeds this loop cannot be told"
    raise script.refuse(loops[0][1], message, "name it: `for batch in train_loader`, made by `DataLoader(…)`")


def _list_iterated(script: Script, tracer: Tracer, loops: Loops) -> Iterator[tuple[int, Loop, Feed]]:
    """What a loop iterates over."""
    for find in (find_repeated, _find_loader, find_phases, find_beside):
        for number, loop in loops:
            iterable = read_iterable(loop)
            for node in ast.walk(iterable) if iterable is not None else ():
                inline = isinstance(node, ast.Call) and find is _find_loader
                if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or inline:
                    assert isinstance(node, ast.expr)
                    feed = find(script, tracer, loop, node)
                    if feed is not None:
                        yield number, loop, feed


def _list_repeated(script: Script, tracer: Tracer, loops: Loops) -> Iterator[tuple[int, Loop, Feed]]:
    """What a loop takes by ``next``."""
    for number, loop in loops:
        for taken in list_taken(script, loop):
            feed = find_repeated(script, tracer, loop, taken)
            if feed is not None:
                yield number, loop, feed


def _only_adds_up(script: Script, loop: Loop, step: ast.Call) -> bool:
    """Whether a loop adds up gradients before the step."""
    return script.scope(loop) is script.scope(step) and not is_under(script, step, loop)


def _refuse_second(script: Script, tracer: Tracer, loop: Loop, feed: Feed) -> None:
    """Refuse a second loader in the same loop: only one gets a sampler."""
    iterable = read_iterable(loop)
    nodes = [*list_taken(script, loop), *(ast.walk(iterable) if iterable is not None else ())]
    for node in nodes:
        if not isinstance(node, ast.Name | ast.Call):
            continue
        for find in (find_repeated, _find_loader)[isinstance(node, ast.Call) :]:
            other = find(script, tracer, loop, node)
            if other is not None and other.call is not feed.call:
                help_ = "read both in one dataset, whose rows a sampler can divide"
                raise script.refuse(node, f"`{script.written(node)}` feeds this loop too", help_)


def _find_loader(script: Script, tracer: Tracer, loop: Loop, node: ast.expr) -> Feed | None:
    if isinstance(node, ast.Call):  # `for batch in DataLoader(rows, …)`
        return _read_inline(script, node)
    scope = script.scope(loop)
    loader, wrappers = unwrap_loader(script, tracer, node, scope)
    for each in wrappers:
        if isinstance(node, ast.Name) and script.scope(each) is scope:
            node = each.args[0]
    iterable = read_iterable(loop)
    if loader is None or (iterable is not None and any(loader is inner for inner in ast.walk(iterable))):
        return None
    return Feed("loader", loader, node)


def _read_inline(script: Script, call: ast.Call) -> Feed | None:
    """A loader without a name."""
    if not script.module.name_of(call.func).endswith("DataLoader"):
        return None
    refuse_graphs(script, call)
    return Feed("loader", call)
