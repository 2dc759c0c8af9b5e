"""The trained model is saved where it is deleted with the node."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.facts.library_calls import find_call
from worldsize.rules.context import Context
from worldsize.scripts.definitions import define_alone
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.values import evaluate

_LOST = re.compile(r"/(?:tmp|var/tmp|root|home|workspace|opt|scratch)/.+")
_MOST = 50  # saves of a program whose paths are looked for in all of its text
# What may take it from there, or says that something else is kept.
_TAKES = re.compile(
    r"outputs\b|mlflow|azureml|azure\.|upload|copy|shutil|\.move\(|rename|subprocess|os\.system|wandb|push_to_hub|boto|"
    r"register|sys\.argv|onnx|export|tar\b|zipfile|blob"
)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if any(_TAKES.search(module.text) for module in program.modules):
        return
    saves = [(module, call, path) for module in program.modules for call, path in module.once(_list_saves)]
    text = program.launch.step.component.command if program.launch.step.component else None
    if not 0 < len(saves) <= _MOST or not all(
        isinstance(path, str) and _LOST.fullmatch(path) for _, _, path in saves
    ):
        return
    for module, call, path in saves:
        assert isinstance(path, str)
        folder = path.rpartition("/")[0]
        around = str(text.value) if text is not None else ""
        read = sum(folder in other.text for other in program.modules) > 1 or module.text.count(path) > 1
        if folder in around or read or not read_reached(program).runs(module, call):
            return
    module, call, path = saves[-1]
    message = f"`{path}` is deleted with the node: nothing keeps what is saved here"
    help_ = "save it below `./outputs`, or in an output that the job declares"
    yield Finding(module.span(call), message, help_, related=program.related)


def _list_saves(module: Module) -> list[tuple[ast.Call, object]]:
    """The calls that save a model, each with the path, where it is known."""
    saves = ((call, find_call(name, "saves_model")) for name, call in module.calls)
    return [
        (call, evaluate(define_alone(module), module, _find_path(call, row.argument or 0)))
        for call, row in saves
        if row is not None
    ]


def _find_path(call: ast.Call, position: int) -> ast.AST | None:
    return call.args[position] if len(call.args) > position else keyword_argument(call, "f")
