"""What all processes have to compute together, although only the first one shows or writes it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TypeAlias

from worldsize.adopting.source.script import Script

Together: TypeAlias = Collection[str]  # functions, or methods of a model
_TRAINING = ("tensorflow", "keras", "tf_keras", "lightning", "pytorch_lightning", "transformers", "trl")
_RESULTS = {"evaluate": "metrics", "validate": "metrics", "test": "metrics", "predict": "predictions"}
_TOGETHER = "all processes compute it, and the first one shows it"
_UNSURE = (ast.JoinedStr, ast.Lambda, ast.BoolOp, ast.IfExp, ast.ListComp, ast.GeneratorExp, ast.DictComp)


def is_together(script: Script, statement: ast.AST, together: Together) -> bool:
    """Whether a statement calls what all processes have to call: `model.save(…)`, and not `np.save(…)`."""
    return any(isinstance(node, ast.Call) and _joins(script, node, together) for node in ast.walk(statement))


def _joins(script: Script, call: ast.Call, together: Together) -> bool:
    """Whether all processes have to make a call."""
    func = call.func
    last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return last in together and not _saves_alone(script, call)


def take_out(script: Script, statement: ast.stmt, together: Together) -> bool:
    """Compute above a statement what all processes have to: the first one prints or writes the result."""
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call) or not script.has_own_line(statement):
        return False
    all_ = [each for each in ast.walk(call) if isinstance(each, ast.Call) and _joins(script, each, together)]
    outer = [each for each in all_ if not any(up in all_ for up, _ in script.module.ancestors(each))]
    sure = {
        each for part in (*call.args, *(word.value for word in call.keywords)) for each in _walk_sure(part)
    }
    edited = any(script.edits_between(script.start(each), script.end(each)) for each in outer)
    if edited or call in outer or not sure.issuperset(outer):
        return False
    for node in outer:
        name = script.new_name(_RESULTS.get(getattr(node.func, "attr", ""), "result"))
        script.insert_before(statement, [f"{name} = {script.written(node)}"], None, _TOGETHER)
        script.replace(node, name, None, _TOGETHER)
    return True


def _walk_sure(part: ast.expr) -> Iterator[ast.Call]:
    """The calls in an expression that it makes once, and in any case."""
    if isinstance(part, _UNSURE):
        return
    if isinstance(part, ast.Call):
        yield part
    for child in ast.iter_child_nodes(part):
        if isinstance(child, ast.keyword):
            yield from _walk_sure(child.value)
        elif isinstance(child, ast.expr):
            yield from _walk_sure(child)


def _saves_alone(script: Script, call: ast.Call) -> bool:
    """Whether a function of a module saves what is no model of the library that trains."""
    top, _, last = script.module.name_of(call.func).partition(".")
    root = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    imported = isinstance(root, ast.Name) and root.id in script.module.names
    return imported and top not in _TRAINING and last.rpartition(".")[2] in ("save", "save_model")
