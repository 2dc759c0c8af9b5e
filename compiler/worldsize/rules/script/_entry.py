"""The functions that a parallel task or a deployment calls in its script."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import local_path
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Scalar, find_node
from worldsize.rules.shared.entry_scripts import find_entry_scripts
from worldsize.scripts.bindings import FUNCTIONS, Function
from worldsize.scripts.module import Module, list_bound_names
from worldsize.scripts.program import read_module

_RUN = "run"
# What it gets, and with how many arguments: of a parallel task the second is the context of the mini-batch.
_GIVES = {"parallel": ("each mini-batch", (1, 2)), "deployment": ("each request", (1,))}


def check_entry_function_missing(context: Tree, component: Component) -> Iterator[Finding]:
    kind, task = component.type.lower(), find_node(component.raw, "task", "type")
    if kind not in _GIVES or (isinstance(task, Scalar) and task.text != "run_function"):
        return
    given, counts = _GIVES[kind]
    for entry, code, folder in find_entry_scripts(component):
        root = local_path(code.value, folder) if code is not None and isinstance(code.value, str) else None
        module = read_module(context, root / entry.text) if root is not None else None
        if module is None or not module.tree.body or list_bound_names(module) is None:
            continue
        functions = _find_functions(module)
        if not functions and _RUN not in module.names and not module.stores(_RUN):
            message = f"`{entry.text}` has no function `run`, which is called with {given}"
            yield Finding(entry.span, message, f"define `run(data)` in `{entry.text}`")
        for function in functions if len(functions) == 1 else ():
            least, most = _count_parameters(function)
            if not any(least <= count <= most for count in counts) and not function.decorator_list:
                takes = plural(least, "argument") if least else "none"
                message = f"`run` is called with {given}, but takes {takes}"
                help_ = "give it one parameter, or defaults for the others"
                yield Finding(module.span(function), message, help_)


def _find_functions(module: Module) -> list[Function]:
    """The functions of this name at the top of a file, also under a condition."""
    functions = [node for kind in FUNCTIONS for node in module.kinds.get(kind, ()) if node.name == _RUN]
    inner = (*FUNCTIONS, ast.ClassDef)
    return [
        node for node in functions if not any(isinstance(above, inner) for above, _ in module.ancestors(node))
    ]


def _count_parameters(function: Function) -> tuple[int, float]:
    """The least and the greatest number of positional arguments."""
    arguments: ast.arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    return most - len(arguments.defaults), float("inf") if arguments.vararg is not None else most
