"""An output is given to the script, which never uses it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml import binding
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.interface.model import Option
from worldsize.scripts.interface.read import read_interface
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program
from worldsize.scripts.words import Argument, read_arguments

_WHOLE = ("vars", "__dict__", "asdict", "_get_kwargs", "AZURE_ML_OUTPUT", "getattr")  # all arguments at once
_SHOWS = ("print", "makedirs", "mkdir", "info", "debug", "warning", "exists", "isdir")

_WRAPS = ("Path", "str", "format", "join", "abspath")
_PASSES = (ast.JoinedStr, ast.FormattedValue, ast.keyword, ast.Attribute, ast.BinOp, ast.Tuple)


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    interface = read_interface(program)
    if interface is None or interface.commands is not None or not program.complete or program.says(*_WHOLE):
        return
    for option, argument in _find_outputs(interface.options, read_arguments(program, program.launch)):
        expression = binding.find_expressions(argument.written)[0]
        if argument.place is None or any(
            _uses(module, option, by_parameter=interface.kind != "argparse") for module in program.modules
        ):
            continue
        script = program.path.name
        message = f"the output `{expression.port}` stays empty: `{script}` never writes to `{option.label}`"
        help_ = f"write the files below `args.{option.name}`"
        yield Finding(argument.place, message, help_, related=option.related)


def _find_outputs(options: list[Option], arguments: list[Argument]) -> Iterator[tuple[Option, Argument]]:
    """The options that are given a path of an output."""
    flag = ""
    for argument in arguments:
        name, equals, _ = argument.written.partition("=")
        if argument.is_flag:
            flag = name
        scopes = {expression.scope for expression in binding.find_expressions(argument.written)}
        if scopes == {"outputs"} and (equals or not argument.is_flag):
            for option in options:
                if flag in option.flags and option.most == 1:
                    yield option, argument
        flag = flag if argument.is_flag else ""


def _uses(module: Module, option: Option, *, by_parameter: bool) -> bool:
    """Whether a file does more with an argument than print it or create its folder.

    With click, typer and fire it is a parameter of a function.
    """
    declared = set(ast.walk(option.node))
    if any(
        constant.value == option.name and constant not in declared
        for constant in module.kinds.get(ast.Constant, ())
    ):
        return True  # by its name in a text
    if by_parameter and not module.once(_only_shows_name, option.name, 3):
        return True
    reads = [attribute for attribute in module.kinds.get(ast.Attribute, ()) if attribute.attr == option.name]
    return any(not _only_shows(module, node, 3) for node in reads)


def _only_shows(module: Module, node: ast.AST, depth: int) -> bool:
    """Whether a value is only printed, or its folder created, also under another name."""
    for above, child in module.ancestors(node):
        if isinstance(above, ast.Call) and child is not above.func:
            name = module.name_of(above.func).rpartition(".")[2]
            if name not in _WRAPS:
                return name in _SHOWS
        elif isinstance(above, ast.Call):  # of a method of it
            name = child.attr if isinstance(child, ast.Attribute) else ""
            if name not in _WRAPS:
                return name in _SHOWS
        elif isinstance(above, ast.Assign):
            names = tuple(target.id for target in above.targets if isinstance(target, ast.Name))
            plain = len(names) == len(above.targets) and depth > 0
            return plain and all(module.once(_only_shows_name, name, depth - 1) for name in names)
        elif not isinstance(above, _PASSES):
            return isinstance(above, ast.Expr)
    return False


def _only_shows_name(module: Module, name: str, depth: int) -> bool:
    loads = [use for use in module.kinds.get(ast.Name, ()) if use.id == name]
    return all(_only_shows(module, use, depth) for use in loads if isinstance(use.ctx, ast.Load))
