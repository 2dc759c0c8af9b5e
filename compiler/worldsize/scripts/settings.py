"""Values that a script gives to a library, through its constants and arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.span import Span
from worldsize.scripts.interface.read import read_reached, runs_in_job
from worldsize.scripts.module import Module, constant_value, keyword_argument
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
    return (
        int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
        else None
    )


def read_value(program: Program, module: Module, node: ast.AST | None) -> object:
    """The value of an expression: a literal, a constant, an argument of the script or its default."""
    if isinstance(node, ast.Attribute):
        words = [flag.value for flag in program.command.flags() if flag.name == node.attr]
        if len(words) == 1 and words[0] is not None and _is_argument(program, node.attr):
            text = words[0].bare
            number = program.launch.read_number(text) if len(program.launches) == 1 else None
            return number if number is not None else None if "$" in text else text
        module_of = module.name_of(node)
        if module_of.startswith("torch."):
            return module_of
    return read_setting(program, module, node)


def _is_argument(program: Program, name: str) -> bool:
    return any(
        name in {str(getattr(argument, "value", "")).lstrip("-").replace("-", "_") for argument in call.args}
        for module in program.modules
        for call in module.called("add_argument")
    )


def read_keyword(program: Program, module: Module, call: ast.Call, name: str) -> object:
    """The value of a keyword argument; None if absent or unknown."""
    return read_value(program, module, keyword_argument(call, name))


def find_place(program: Program, module: Module, node: ast.AST) -> Span:
    """Where the value of an expression is written: the command, an input of the step, or the script."""
    if isinstance(node, ast.Attribute) and _is_argument(program, node.attr):
        flags = [
            flag for flag in program.command.flags() if flag.name == node.attr and flag.value is not None
        ]
        for argument in read_arguments(program, program.launch) if len(flags) == 1 else ():
            word = flags[0].value
            if word is not None and argument.span is not None and argument.place == program.launch.span(word):
                return argument.span
    return module.span(node)


def read_setting(program: Program, module: Module, node: ast.AST | None) -> object:
    """The value of an expression, also of a constant, or the default of an argument that is absent."""
    if not isinstance(node, ast.Attribute):
        return evaluate(read_reached(program), module, node)
    if any(node.attr in other.once(_list_set_attributes) for other in program.modules):
        return None
    declared = [
        call
        for other in program.modules
        for call in other.called("add_argument")
        if node.attr in {str(constant_value(name)).lstrip("-").replace("-", "_") for name in call.args}
    ]
    if len(declared) != 1 or any(flag.name == node.attr for flag in program.command.flags()):
        return None
    return constant_value(keyword_argument(declared[0], "default"))


def _list_set_attributes(module: Module) -> set[str]:
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
            backend = (
                call.args[0]
                if call.args
                else keyword_argument(call, "backend") or keyword_argument(call, "dist_backend")
            )
            value = read_setting(program, module, backend)
            if isinstance(value, str) and value.lower() == "nccl" and runs_in_job(program, module, call):
                yield module, call
