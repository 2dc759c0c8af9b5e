"""The interface that `fire.Fire` makes of a function, a class, a dictionary or the whole module."""

from __future__ import annotations

import ast

from worldsize.scripts.bindings import Function
from worldsize.scripts.interface.annotations import find_class
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import Module, constant_value, keyword_argument, list_bound_names
from worldsize.scripts.reached import Reached

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN_METHODS = frozenset({"staticmethod", "classmethod"})


def read_fire(reached: Reached) -> Interface | None:
    """The interface of the one `fire.Fire(…)`; None where there is none or several."""
    calls = [(module, call) for module in reached.modules for call in module.called("fire.Fire")]
    calls = [(module, call) for module, call in calls if reached.runs(module, call)]
    if len(calls) != 1 or not reached.surely_runs(*calls[0]):
        return None
    module, call = calls[0]
    if keyword_argument(call, "command") is not None or len(call.args) > 1:
        return None
    component = call.args[0] if call.args else keyword_argument(call, "component")
    return _read_module(module) if component is None else _read_component(reached, module, component)


def _read_component(reached: Reached, module: Module, node: ast.expr) -> Interface | None:
    if isinstance(node, ast.Dict):
        commands: dict[str, Interface] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = constant_value(key)
            if not isinstance(name, str):
                return None
            commands[name] = _read_component(reached, module, value) or Interface(closed=False)
        return Interface(kind="fire", abbreviates=False, commands=commands)
    found = find_class(reached, module, node)
    if found is not None:
        return _read_class(*found)
    functions = reached.find(module, node) if isinstance(node, ast.Name) else []
    return _read_function(*functions[0]) if len(functions) == 1 else None


def _read_module(module: Module) -> Interface | None:
    """`fire.Fire()`: whatever the module binds is a command."""
    names = list_bound_names(module)
    if names is None:
        return None
    commands = {name: Interface(closed=False) for name in names}
    for each in module.tree.body:
        if isinstance(each, _FUNCTIONS):
            commands[each.name] = _read_function(module, each)
        elif isinstance(each, ast.ClassDef):
            commands[each.name] = _read_class(module, each)
    return Interface(kind="fire", abbreviates=False, commands=commands)


def _read_class(module: Module, node: ast.ClassDef) -> Interface:
    """The arguments of the constructor, and the methods as commands; those of a base are not known."""
    methods = {each.name: each for each in node.body if isinstance(each, _FUNCTIONS)}
    if node.bases or node.keywords or node.decorator_list:
        return Interface(kind="fire", closed=False)
    made = methods.get("__init__")
    interface = (
        _read_function(module, made, skip=1)
        if made is not None
        else Interface(kind="fire", abbreviates=False, by_position=True)
    )
    interface.by_position = False  # a class takes no words without a flag
    attributes = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    commands = {name: Interface(closed=False) for name in attributes | names}
    for name, method in methods.items():
        decorators = {module.name_of(each) for each in method.decorator_list}
        skip = 0 if "staticmethod" in decorators else 1
        commands[name] = (
            _read_function(module, method, skip=skip)
            if decorators <= _PLAIN_METHODS
            else Interface(closed=False)
        )
    interface.commands = commands
    return interface


def _read_function(module: Module, function: Function, skip: int = 0) -> Interface:
    interface = Interface(kind="fire", abbreviates=False, by_position=True)
    arguments = function.args
    wraps = [each for each in function.decorator_list if module.name_of(each) not in _PLAIN_METHODS]
    interface.closed = arguments.kwarg is None and not wraps
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    named = [(each, position < first_default) for position, each in enumerate(positional)][skip:]
    for each, required in (*named, *((each, default is None) for each, default in keywords)):
        flags = {f"--{name}": None for name in (each.arg, each.arg.replace("_", "-"))}
        flags |= {f"--no{each.arg}": None, f"-{each.arg[0]}": None}
        option = Option(tuple(flags), each.arg, module, each, 0, 1)
        option.required = required and not wraps
        interface.options.append(option)
    return interface
