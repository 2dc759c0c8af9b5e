"""What functions pass on to the loops of the training: the folder of the checkpoints, the epoch."""

from __future__ import annotations

import ast

from worldsize.adopting.options.flags import add_flag, list_flags
from worldsize.adopting.options.parsers import Parser, find_place
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.loops import name_epoch
from worldsize.adopting.training.search import Frame, Training
from worldsize.scripts.bindings import Scope

VARIABLE = "AZURE_ML_OUTPUT_checkpoints"  # which Azure ML sets for an output with the name `checkpoints`
_REASON = "the loop gets what it needs by parameters"


def name_folder(script: Script, training: Training, *, parser: Parser, header: Header) -> str:
    """The folder as the loop over epochs reads it; functions pass it on to a loop that reads no options."""
    loop = training.epoch_loop
    assert loop is not None
    if any(flag.role == "checkpoints" for flag in list_flags(parser)):  # what the script itself keeps there
        return name_by_variable(script, header)
    place = find_place(script, parser, loop)
    if place is not None:
        return add_flag(parser, "checkpoints", None, place=place)
    frames = training.frames[training.epoch_frame :]
    for number, outer in enumerate(frames[1:], 1):
        function = frames[number - 1].scope
        if isinstance(function, ast.Module) or function.args.vararg is not None:
            break
        place = find_place(script, parser, outer.call)
        if place is not None:
            option = add_flag(parser, "checkpoints", None, place=place)
            return _pass_on(script, frames[: number + 1], "checkpoints", option, "None")
    return name_by_variable(script, header)


def name_epoch_inside(script: Script, training: Training) -> str | None:
    """The number of the epoch in the function of the loop over batches, which gets it if it does not yet."""
    assert training.epoch_loop is not None
    name = name_epoch(script, training.epoch_loop)
    frames = training.frames[training.batch_frame : training.epoch_frame + 1]
    for number in range(len(frames) - 1, 0, -1):
        function = frames[number - 1].scope
        if isinstance(function, ast.Module) or function.args.vararg is not None:
            return None
        values = {
            taken.arg: script.argument(frames[number].call, function, taken.arg)
            for taken in function.args.args
        }
        taken = next((arg for arg, value in values.items() if getattr(value, "id", "") == name), None)
        if taken is None:
            return _pass_on(script, frames[: number + 1], "epoch", name, "0")
        name = taken
    return name


def _pass_on(script: Script, frames: list[Frame], wanted: str, value: str, default: str) -> str:
    """Let each function on the way to the loop take a parameter; the outermost call passes the value."""
    scopes = [frame.scope for frame in frames[:-1]]
    name = wanted if not any(_knows(script, scope, wanted) for scope in scopes) else script.new_name(wanted)
    for scope in scopes:
        assert not isinstance(scope, ast.Module)
        script.add_parameter(scope, f"{name}={default}", None, _REASON)
    for frame in frames[1:]:
        script.set_keyword(frame.call, name, value if frame is frames[-1] else name, None, _REASON)
    return name


def _knows(script: Script, scope: Scope, name: str) -> bool:
    """Whether a function speaks of a name."""
    names = {getattr(node, "id", getattr(node, "arg", "")) for node in ast.walk(scope)}
    return name in names or name in script.module.names


def name_by_variable(script: Script, header: Header) -> str:
    """A constant with the folder, which only a job has."""
    name = script.new_name("CHECKPOINTS")
    header.imports["import os"] = None
    header.constants.append(f'{name} = os.environ.get("{VARIABLE}")')
    return name
