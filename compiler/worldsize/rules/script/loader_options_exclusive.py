"""A `DataLoader` is given options that exclude each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding, Fix
from worldsize.rules.context import Context
from worldsize.scripts.interface.read import read_reached, runs_in_job
from worldsize.scripts.module import Module, constant_value
from worldsize.scripts.program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    for module in program.modules:
        for call in module.called("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"):
            fault = _judge(program, module, call)
            if fault is not None and read_reached(program).runs(module, call):
                other, option = fault
                written = f"{option.arg}={ast.unparse(option.value)}"
                message = f"`{written}` and `{other}` exclude each other: `DataLoader` stops"
                help_ = f"remove `{written}`"
                fix = Fix(module.full_span(option.value), "False") if other == "sampler" else None
                yield Finding(module.span(option), message, help_, related=program.related, fix=fix)


def _judge(program: Program, module: Module, call: ast.Call) -> tuple[str, ast.keyword] | None:
    """The option that excludes another, and the option to remove."""
    options = {keyword.arg: keyword for keyword in call.keywords if keyword.arg is not None}
    shuffle = options.get("shuffle")
    if (
        shuffle is not None
        and constant_value(shuffle.value) is True
        and _is_given(program, module, options, "sampler")
    ):
        return "sampler", shuffle
    if not _is_given(program, module, options, "batch_sampler"):
        return None
    for name, default in (("shuffle", False), ("batch_size", 1), ("drop_last", False)):
        value = constant_value(options[name].value) if name in options else default
        if type(value) in (bool, int) and value != default:
            return "batch_sampler", options[name]
    return ("batch_sampler", options["sampler"]) if _is_given(program, module, options, "sampler") else None


def _is_given(program: Program, module: Module, options: dict[str, ast.keyword], name: str) -> bool:
    """Whether an option certainly is not None: it is a call, or a variable that is only set to one.

    None beside it is for the script that runs by itself.
    """
    value = options[name].value if name in options else None
    if not isinstance(value, ast.Name):
        return isinstance(value, ast.Call)
    if any(arg.arg == value.id for arg in module.kinds.get(ast.arg, ())):
        return False
    set_to = [module.parents.get(node) for node in module.stores(value.id)]
    values = {statement: statement.value for statement in set_to if isinstance(statement, ast.Assign)}
    made = {statement for statement, value in values.items() if isinstance(value, ast.Call)}
    if not made or len(values) < len(set_to):
        return False
    others = [value for statement, value in values.items() if statement not in made]
    if any(not isinstance(value, ast.Constant) or value.value is not None for value in others):
        return False
    return not others or (
        program.processes > 1 and all(runs_in_job(program, module, statement) for statement in made)
    )
