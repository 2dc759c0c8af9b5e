"""Values that a script gives to a library, through its constants and arguments."""

from __future__ import annotations

import ast

from worldsize.base.span import Span
from worldsize.scripts.interface.read import read_setting
from worldsize.scripts.module import Module, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.reached import find_scope
from worldsize.scripts.words import read_arguments


def read_number(program: Program, module: Module, node: ast.AST | None) -> int | None:
    """A whole number, also one that the command gives; None where it is not known."""
    value = read_value(program, module, node)
    if isinstance(value, str):
        value = program.launch.read_number(value)
    return (
        int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
        else None
    )


def read_value(program: Program, module: Module, node: ast.AST | None) -> object:
    """What an expression is: a literal, a constant, an argument of the script or its default."""
    if isinstance(node, ast.Attribute):
        given = [flag.value for flag in program.command.flags() if flag.name == node.attr]
        if len(given) == 1 and given[0] is not None and _is_argument(program, node.attr):
            text = given[0].bare
            number = program.launch.read_number(text) if len(program.launches) == 1 else None
            return number if number is not None else None if "$" in text else text
        module_of = module.name_of(node)
        if module_of.startswith("torch."):
            return module_of
    return read_setting(program, module, node)


def _is_argument(program: Program, name: str) -> bool:
    return any(
        name in {str(getattr(each, "value", "")).lstrip("-").replace("-", "_") for each in call.args}
        for module in program.modules
        for call in module.called("add_argument")
    )


def read_keyword(program: Program, module: Module, call: ast.Call, name: str) -> object:
    """The value of a keyword argument, None where it is not given or not known."""
    return read_value(program, module, keyword_argument(call, name))


def find_place(program: Program, module: Module, node: ast.AST) -> Span:
    """Where the value of an expression is written: the command, an input of the step, or the script."""
    if isinstance(node, ast.Attribute) and _is_argument(program, node.attr):
        flags = [
            flag for flag in program.command.flags() if flag.name == node.attr and flag.value is not None
        ]
        for given in read_arguments(program, program.launch) if len(flags) == 1 else ():
            word = flags[0].value
            if word is not None and given.span is not None and given.place == program.launch.span(word):
                return given.span
    return module.span(node)


def find_given(program: Program, module: Module, node: ast.Name) -> list[ast.expr | None] | None:
    """What the calls of a function give for its parameter, or its default; None of what is no parameter."""
    scope = find_scope(module, node)
    arguments = getattr(scope, "args", None)
    if not isinstance(arguments, ast.arguments):
        return None
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if node.id not in names or any(find_scope(module, each) is scope for each in module.stores(node.id)):
        return None
    position = names.index(node.id)
    defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
    calls = [call for other in program.modules for call in other.called(getattr(scope, "name", ""))]
    plain = [
        call
        for call in calls
        if not any(isinstance(each, ast.Starred) for each in call.args)
        and all(each.arg is not None for each in call.keywords)
    ]
    return [
        keyword_argument(call, node.id)
        or next(iter(call.args[position : position + 1]), defaults.get(node.id))
        for call in plain
    ]
