"""What all processes have to compute together, although only the first one shows or writes it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TypeAlias

from worldsize.adopting.source.script import Script

Together: TypeAlias = Collection[str]  # functions, or methods of a model
_TRAINING = ("tensorflow", "keras", "tf_keras", "lightning", "pytorch_lightning", "transformers", "trl")
_RESULTS = {
    "evaluate": "metrics",
    "validate": "metrics",
    "test": "metrics",
    "predict": "predictions",
    "compute": "result",
}
_TOGETHER = "all processes compute it, and the first one shows it"
_COMPUTED = ("callback_metrics", "logged_metrics", "progress_bar_metrics")
_UNSURE = (ast.Lambda, ast.BoolOp, ast.IfExp, ast.ListComp, ast.GeneratorExp, ast.DictComp)


def is_together(script: Script, statement: ast.AST, together: Together) -> bool:
    """Whether a statement calls what all processes have to call: `model.save(…)`, and not `np.save(…)`."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(_joins(script, each, together) for each in calls) or bool(list_computed(script, statement))


def list_computed(script: Script, node: ast.AST) -> list[ast.Attribute]:
    """Where a hook of Lightning reads the metrics of the trainer: all processes compute them then."""
    return [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and each.attr in _COMPUTED
        and isinstance(script.module.parents.get(script.scope(each)), ast.ClassDef)
    ]


def _joins(script: Script, call: ast.Call, together: Together) -> bool:
    """Whether all processes have to make a call."""
    func = call.func
    last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if last == "compute" and isinstance(func, ast.Attribute):  # of torchmetrics, over all processes
        return any(name.partition(".")[0] == "torchmetrics" for name, _, _ in script.module.imports)
    return last in together and not _saves_alone(script, call)


def take_out(script: Script, statement: ast.stmt, together: Together) -> bool:
    """Compute above a statement what all processes have to: the first one prints or writes the result."""
    call = getattr(statement, "value", None)
    if not script.has_own_line(statement):
        return False
    if computed := list_computed(script, statement):
        return _compute_above(script, statement, computed)
    if not isinstance(call, ast.Call):
        return False
    all_ = [each for each in ast.walk(call) if isinstance(each, ast.Call) and _joins(script, each, together)]
    outer = [each for each in all_ if not any(up in all_ for up, _ in script.module.ancestors(each))]
    sure = {
        each for part in (*call.args, *(word.value for word in call.keywords)) for each in _walk_sure(part)
    }
    told = all(script.written(each) == ast.unparse(each) for each in outer if each in _list_filled(call))
    if call in outer or not told or not sure.issuperset(outer):
        return False
    for node in outer:
        called = script.written(node.func).rpartition(".")[2]
        name = script.new_name(_RESULTS.get(called, f"{called}_result"))
        script.move_before(node, statement, name, _TOGETHER)
    return True


def _list_filled(call: ast.Call) -> set[ast.AST]:
    """What is filled into texts, whose place Python does not always tell."""
    texts = (each for each in ast.walk(call) if isinstance(each, ast.JoinedStr))
    return {inner for each in texts for inner in ast.walk(each)}


def _compute_above(script: Script, statement: ast.stmt, computed: list[ast.Attribute]) -> bool:
    """Read the metrics of the trainer once, by a name."""
    texts = {ast.unparse(each) for each in computed}
    if len(texts) > 1 or any(script.written(each) not in texts for each in computed):
        return False
    name = script.new_name("metrics")
    script.insert_before(statement, [f"{name} = {texts.pop()}"], None, _TOGETHER)
    for each in computed:
        script.replace(each, name, None, _TOGETHER)
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
