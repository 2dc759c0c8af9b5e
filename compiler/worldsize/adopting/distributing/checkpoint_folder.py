"""What a loop over epochs calls the folder of its checkpoints: an option, a parameter, or a variable."""

from __future__ import annotations

import ast

from worldsize.adopting.options.flags import add_flag
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.options.reaching import find_place
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.source.tracing import Tracer
from worldsize.adopting.training.search import Frame, Training

VARIABLE = "AZURE_ML_OUTPUT_checkpoints"  # which Azure ML sets for an output with the name `checkpoints`
_REASON = "the loop over epochs saves its checkpoints there"


def name_folder(script: Script, tracer: Tracer, training: Training, *, parser: Parser, header: Header) -> str:
    """The folder as the loop over epochs reads it; functions pass it on to a loop that reads no options."""
    loop = training.epoch_loop
    assert loop is not None
    place = find_place(script, tracer, parser, loop)
    if place is not None:
        return add_flag(parser, "checkpoints", None, place=place)
    frames = training.frames[training.epoch_frame :]
    for number, outer in enumerate(frames[1:], 1):
        function = frames[number - 1].scope
        if isinstance(function, ast.Module) or function.args.vararg is not None:
            break
        place = find_place(script, tracer, parser, outer.call)
        if place is not None:
            return _pass_on(script, frames[: number + 1], add_flag(parser, "checkpoints", None, place=place))
    return name_by_variable(script, header)


def _pass_on(script: Script, frames: list[Frame], option: str) -> str:
    """Let each function on the way to the loop take the folder, of which the outermost reads the option."""
    name = script.new_name("checkpoints")
    for frame in frames[:-1]:
        assert not isinstance(frame.scope, ast.Module)
        script.add_parameter(frame.scope, f"{name}=None", None, _REASON)
    for frame in frames[1:]:
        script.set_keyword(frame.call, name, option if frame is frames[-1] else name, None, _REASON)
    return name


def name_by_variable(script: Script, header: Header) -> str:
    """A constant with the folder, which only a job has."""
    name = script.new_name("CHECKPOINTS")
    header.imports["import os"] = None
    header.constants.append(f'{name} = os.environ.get("{VARIABLE}")')
    return name
