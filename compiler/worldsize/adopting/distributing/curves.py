"""Log the numbers that a training prints or keeps after each epoch, so that its job has curves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from keyword import iskeyword

from worldsize.adopting.source.header import Header
from worldsize.adopting.source.reading import read_beside
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import walk_outside
from worldsize.adopting.training.loops import name_epoch
from worldsize.adopting.training.search import Training
from worldsize.facts.library_calls import find_call
from worldsize.scripts.module import constant_value, last_name

_HELPER = '''def {name}(step, **numbers):
    """Log what is printed, for the curves of the job; by hand there is none."""
    if {logs}:
        import mlflow

        mlflow.log_metrics({{name: float(number) for name, number in numbers.items()}}, step)'''
_REASON = "the job shows these numbers as curves"
_FLOAT = r"\.\d+[eEfFgG%]"
_PERCENT = re.compile(r"%[-+ 0#]*(?:[1-9]\d*)?(?:\.\d+)?([a-zA-Z%])")
_BRACES = re.compile(r"\{\w*(?::([^{}]*))?\}")
_LABEL = re.compile(r"([A-Za-z_]\w*(?: [A-Za-z_]\w*)?)\W*$")  # one word or two
_PURE = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.BinOp,
    ast.UnaryOp,
    ast.Constant,
    ast.operator,
    ast.unaryop,
)
_ITEM = frozenset({"len", "item"})


def log_curves(script: Script, training: Training, header: Header) -> None:
    """Log the numbers behind each statement of the loop over epochs that shows some."""
    loop = training.epoch_loop
    modules = read_beside(script.module).modules
    if loop is None or any(_tracks(name) for module in modules for name in module.names.values()):
        return
    helper = script.new_name("log_metrics")
    names: set[str] = set()
    shown = [node for node in walk_outside(loop, [training.batch_loop]) if _is_plain(script, training, node)]
    for statement in sorted(shown, key=lambda node: node not in loop.body):  # in each epoch, if some is
        assert isinstance(statement, ast.Expr)
        numbers = {name: text for name, text in _list_numbers(script, statement) if name not in names}
        if numbers:
            names |= numbers.keys()
            passed = "".join(f", {name}={text}" for name, text in numbers.items())
            line = f"{helper}({name_epoch(script, loop)}{passed})"
            script.insert_after(statement, [line], None, _REASON)
    if names:
        header.imports["import os"] = None
        logs = script.new_name("LOGS")  # MLflow takes the variable away when it finds the run
        header.constants.append(f'{logs} = {header.names.is_first} and "MLFLOW_RUN_ID" in os.environ')
        header.helpers.append(_HELPER.format(name=helper, logs=logs))


def _tracks(name: str) -> bool:
    """Whether a script imports what logs curves that a job shows."""
    return name.partition(".")[0] in ("mlflow", "tensorboardX") or "tensorboard" in name.split(".")


def _is_plain(script: Script, training: Training, node: ast.AST) -> bool:
    """Whether a node is a call on lines of its own, under nothing but conditions of the loop over epochs."""
    if (
        not isinstance(node, ast.Expr)
        or not isinstance(node.value, ast.Call)
        or not script.has_own_line(node)
    ):
        return False
    for above, _ in script.module.ancestors(node):
        if above is training.epoch_loop:
            return True
        names = (
            {getattr(part, "id", "") for part in ast.walk(above.test)} if isinstance(above, ast.If) else set()
        )
        if _name_counter(training) not in names:  # `if epoch % 10 == 0:`; a best number is not a curve
            return False
    return False


def _name_counter(training: Training) -> str | None:
    target = getattr(training.epoch_loop, "target", None)
    return getattr(target, "id", None)


def _list_numbers(script: Script, statement: ast.Expr) -> Iterator[tuple[str, str]]:
    """The numbers that a statement prints, writes as a row or appends to a list, with their names."""
    call = statement.value
    assert isinstance(call, ast.Call)
    last = last_name(call)
    pairs: list[tuple[ast.expr, str]] = []
    if find_call(script.module.name_of(call.func), "prints") or last in ("info", "write"):
        pairs = [pair for argument in call.args for pair in _list_formatted(argument)]
    elif last in ("append", "writerow") and len(call.args) == 1 and isinstance(call.func, ast.Attribute):
        owner, value = call.func.value, call.args[0]
        kept = value.elts if last == "writerow" and isinstance(value, ast.List | ast.Tuple) else [value]
        label = constant_value(owner.slice) if isinstance(owner, ast.Subscript) else last_name(owner)
        pairs = [(node, str(label)) for node in kept if _is_number(script.value(node))]
    for node, label in pairs:
        parts = [part for part in ast.walk(node) if not isinstance(part, ast.expr_context)]
        calls = [part for part in parts if isinstance(part, ast.Call)]
        pure = all(isinstance(part, _PURE) or part in calls for part in parts)
        if not pure or any(last_name(call) not in _ITEM for call in calls):
            continue
        named = (
            node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
        )
        scaled = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        named = next((part for part in parts if isinstance(part, ast.Name)), node) if scaled else named
        name = re.sub(r"\W", "_", last_name(named) if isinstance(named, ast.Name | ast.Attribute) else label)
        is_name = name.isidentifier() and not iskeyword(name) and name != "step"
        if is_name and "\n" not in script.written(node):
            yield name, script.written(node)


def _is_number(value: ast.expr) -> bool:
    """Whether an expression surely gives one number."""
    return (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div)) or last_name(value) == "item"


def _list_formatted(argument: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """What a text shows as a number with a fraction, each with the word in front of it."""
    if isinstance(argument, ast.JoinedStr):
        before = ""
        for part in argument.values:
            if isinstance(part, ast.FormattedValue):
                spec = "".join(str(constant_value(one)) for one in getattr(part.format_spec, "values", ()))
                if re.search(_FLOAT, spec):
                    yield part.value, _name_label(before)
            before = str(constant_value(part) or "")
        return
    text, values, pattern = None, [], _BRACES
    if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Mod):
        text, pattern = constant_value(argument.left), _PERCENT
        values = argument.right.elts if isinstance(argument.right, ast.Tuple) else [argument.right]
    elif isinstance(argument, ast.Call) and last_name(argument) == "format" and not argument.keywords:
        text, values = constant_value(getattr(argument.func, "value", None)), argument.args
    fields = [field for field in pattern.finditer(text) if field[0] != "%%"] if isinstance(text, str) else []
    if isinstance(text, str) and len(fields) == len(values):
        for before, field, value in zip(pattern.split(text)[::2], fields, values, strict=False):
            if re.search(_FLOAT, field[0]):
                yield value, _name_label(before)


def _name_label(before: str) -> str:
    label = _LABEL.search(before)
    return label[1] if label is not None else ""
