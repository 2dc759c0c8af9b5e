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
from worldsize.rules.data._scripts import find_entry_scripts
from worldsize.scripts.bindings import FUNCTIONS, Function
from worldsize.scripts.module import Module, list_bound_names
from worldsize.scripts.program import read_module

_RUN = "run"  # gets one mini-batch, or the data of one request


def check_entry_function_missing(context: Tree, component: Component) -> Iterator[Finding]:
    if component.type.lower() not in ("parallel", "deployment"):
        return
    kind = find_node(component.raw, "task", "type")
    if isinstance(kind, Scalar) and kind.text != "run_function":
        return
    for script, code, folder in find_entry_scripts(component):
        root = local_path(code.value, folder) if code is not None and isinstance(code.value, str) else None
        module = read_module(context, root / script.name) if root is not None else None
        if module is None or not module.tree.body or list_bound_names(module) is None:
            continue
        given = "each mini-batch" if component.type.lower() == "parallel" else "each request"
        functions = _find_functions(module)
        if not functions and _RUN not in module.names and not module.stores(_RUN):
            message = f"`{script.name}` has no function `run`, which is called with {given}"
            yield Finding(script.span, message, f"define `run(data)` in `{script.name}`")
        for function in functions if len(functions) == 1 else ():
            least, most = _count_parameters(function)
            if not least <= 1 <= most and not function.decorator_list:
                takes = plural(least, "argument") if least else "none"
                message = f"`run` is called with {given} as its only argument, but takes {takes}"
                yield Finding(
                    module.span(function), message, "give it one parameter, or defaults for the others"
                )


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
