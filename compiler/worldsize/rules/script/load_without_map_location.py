"""Every process of an instance loads a checkpoint onto the GPU that saved it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.scripts.edits import add_argument
from worldsize.scripts.guards import is_guarded_by_rank
from worldsize.scripts.module import Module, find_mentions
from worldsize.scripts.program import Program


def check_program(context: Context, program: Program) -> Iterator[Finding]:
    if program.kind != "pytorch" or program.per_instance < 2 or not program.is_own_loop:
        return
    # A default device, copies on the CPU, and weights of another script may lie anywhere.
    if program.says("set_default_device", ".cpu(") or not program.says("cuda"):
        return
    if not any(module.once(_saves_weights) for module in program.modules):
        return
    for module in program.modules:
        for call in module.once(_loads):
            if is_guarded_by_rank(program.modules, module, call):
                continue
            message = "every process loads these weights onto the GPU that they were saved from"
            help_ = 'write `map_location="cpu"`: `load_state_dict` copies the weights to the right GPU'
            fix = add_argument(module, call, 'map_location="cpu"')
            yield Finding(module.span(call), message, help_, related=program.related, fix=fix)


def _saves_weights(module: Module) -> bool:
    return any("state_dict" in find_mentions(call) for call in module.called("torch.save"))


def _loads(module: Module) -> list[ast.Call]:
    """The calls of ``torch.load`` that leave the device open and whose result a model takes."""
    taking = [call for name, call in module.calls if name.endswith("load_state_dict")]
    taken = {word for call in taking for argument in call.args for word in find_mentions(argument)}
    inside = {id(node) for call in taking for argument in call.args for node in ast.walk(argument)}
    loads = []
    for call in module.called("torch.load"):
        if len(call.args) != 1 or any(keyword.arg in (None, "map_location") for keyword in call.keywords):
            continue
        above = module.parents.get(call)
        names = above.targets if isinstance(above, ast.Assign) else []
        if id(call) in inside or any(isinstance(name, ast.Name) and name.id in taken for name in names):
            loads.append(call)
    return loads
