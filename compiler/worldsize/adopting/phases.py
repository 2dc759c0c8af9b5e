"""Training and evaluation in one loop: ``for phase in ["train", "val"]`` over ``dataloaders[phase]``."""

from __future__ import annotations

import ast

from worldsize.adopting.feeding import Feed
from worldsize.adopting.script import Script
from worldsize.adopting.tracing import Tracer


def find_phases(script: Script, tracer: Tracer, loop: ast.For, node: ast.expr) -> Feed | None:
    """The training loader of a mapping that the loop reads by the name of its phase."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name):
        return None
    phases = _find_phases(script, node)
    mapping, _ = tracer.follow(node.value, script.scope(loop))
    key = next((each for each in phases if str(each.value).lower().startswith("train")), None)
    if key is None:
        return None
    call: ast.expr | None = None
    if isinstance(mapping, ast.DictComp):
        call = mapping.value
    elif isinstance(mapping, ast.Dict):
        pairs = zip(mapping.keys, mapping.values, strict=True)
        call = next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key.value), None)
        if call is not None:
            call, _ = tracer.follow(call, script.scope(mapping))
    if isinstance(call, ast.Call) and script.module.name_of(call.func).endswith("DataLoader"):
        return Feed("phases", call, node, phase=key)
    return None


def _find_phases(script: Script, node: ast.Subscript) -> list[ast.Constant]:
    """The names that the loop around takes one after the other."""
    assert isinstance(node.slice, ast.Name)
    for above, _ in script.module.ancestors(node):
        if isinstance(above, ast.For) and getattr(above.target, "id", None) == node.slice.id:
            parts = above.iter.elts if isinstance(above.iter, ast.List | ast.Tuple) else []
            return [each for each in parts if isinstance(each, ast.Constant)]
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
