"""Values that a script gives to a library, through its constants and arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.span import Span
from worldsize.scripts.interface.read import read_reached, runs_in_job
from worldsize.scripts.module import Module, constant_value, find_passed, keep, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.values import evaluate
from worldsize.scripts.words import read_arguments

_STARTS = ("init_process_group", "init_distributed")  # torch.distributed's and DeepSpeed's
_ASKS = ("cuda.is_available", "cuda.device_count", "is_nccl_available")


def read_number(program: Program, module: Module, node: ast.AST | None) -> int | None:
    """A whole number, also one from the command; None if unknown."""
    value = read_value(program, module, node)
    if isinstance(value, str):
        value = program.launch.read_number(value)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    return int(number) if number is not None and number == int(number) else None


def read_value(program: Program, module: Module, node: ast.AST | None) -> object:
    """The value of an expression: a literal, a constant, an argument of the script or its default."""
    if isinstance(node, ast.Attribute):
        words = [flag.value for flag in program.command.flags() if flag.name == node.attr]
        if len(words) == 1 and words[0] is not None and _list_declared(program, node.attr):
            text = words[0].bare
            number = program.launch.read_number(text) if len(program.launches) == 1 else None
            return number if number is not None else None if "$" in text else text
        module_of = module.name_of(node)
        if module_of.startswith("torch."):
            return module_of
    return read_setting(program, module, node)


def _list_declared(program: Program, name: str) -> list[ast.Call]:
    """The calls of ``add_argument`` for an argument of the script."""
    return [
        call
        for module in program.modules
        for call in module.called("add_argument")
        if name in {str(constant_value(word)).lstrip("-").replace("-", "_") for word in call.args}
    ]


def find_place(program: Program, module: Module, node: ast.AST) -> Span:
    """Where the value of an expression is written: the command, an input of the step, or the script."""
    if isinstance(node, ast.Attribute) and _list_declared(program, node.attr):
        words = [flag.value for flag in program.command.flags() if flag.name == node.attr and flag.value]
        for argument in read_arguments(program, program.launch) if len(words) == 1 else ():
            if argument.span is not None and argument.place == program.launch.span(words[0]):
                return argument.span
    return module.span(node)


def read_setting(program: Program, module: Module, node: ast.AST | None) -> object:
    """The value of an expression, also of a constant, or the default of an argument that is absent."""
    if not isinstance(node, ast.Attribute):
        return evaluate(read_reached(program), module, node)
    if any(node.attr in list_set_attributes(other) for other in program.modules):
        return None
    declared = _list_declared(program, node.attr)
    if len(declared) != 1 or any(flag.name == node.attr for flag in program.command.flags()):
        return None
    return constant_value(keyword_argument(declared[0], "default"))


@keep
def list_set_attributes(module: Module) -> set[str]:
    """The attributes that a file sets, as in `args.rank = …`."""
    return {
        node.attr for node in module.kinds.get(ast.Attribute, ()) if not isinstance(node.ctx, ast.Load)
    } | {str(constant_value(call.args[1])) for call in module.called("setattr") if len(call.args) > 1}


def find_nccl_calls(program: Program) -> Iterator[tuple[Module, ast.Call]]:
    """The calls that start a process group with ``"nccl"``; none if the program checks for GPUs first."""
    if program.says(*_ASKS):
        return
    for module in program.modules:
        for call in module.called(*_STARTS):
            backend = find_passed(call, 0, "backend") or keyword_argument(call, "dist_backend")
            value = read_setting(program, module, backend)
            if isinstance(value, str) and value.lower() == "nccl" and runs_in_job(program, module, call):
                yield module, call
