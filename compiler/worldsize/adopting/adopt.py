"""Adopt a script: read it, choose how, and give its new text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from worldsize.adopting.distributing.passing import VARIABLE
from worldsize.adopting.distributing.plain_loop import adopt_plain
from worldsize.adopting.libraries.frameworks import choose_framework
from worldsize.adopting.libraries.keras import adopt_keras
from worldsize.adopting.libraries.notebooks import drop_magics, print_displays
from worldsize.adopting.libraries.torch_libraries import adopt_accelerate, adopt_lightning, adopt_transformers
from worldsize.adopting.model import Adoption, Framework, ScriptProfile
from worldsize.adopting.options.configuration import read_replaced
from worldsize.adopting.options.declared import read_options
from worldsize.adopting.options.flags import list_flags
from worldsize.adopting.options.parsers import Parser
from worldsize.adopting.project.inputs import leave_files, leave_paths_behind
from worldsize.adopting.source.header import MARK
from worldsize.adopting.source.reading import read_script
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.profile import add_options, describe_script
from worldsize.adopting.training.refusals import list_trainers
from worldsize.scripts.module import Module


def adopt_script(path: Path, arguments: Sequence[str] = ()) -> Adoption:
    """The script of one GPU for several processes; nothing is written, and nothing of it runs.

    Args:
        path: The script.
        arguments: The command line that it gets, which may name a file with its numbers.

    Raises:
        AdoptError: It cannot be read, or it is not a script that can be adopted safely.
    """
    module, encoding = read_script(path)
    return adopt_module(module, encoding, arguments)


def adopt_module(module: Module, encoding: str = "utf-8", arguments: Sequence[str] = ()) -> Adoption:
    """The same for a script that has been read."""
    script = Script(module, arguments)
    if MARK in module.text:  # adopted before
        options = read_options(module)
        flags = tuple(option.flag for option in options.declared)
        profile = add_options(describe_script(module, _tell_framework(module)), flags, read_replaced(script))
        profile = structs.replace(
            profile, subcommand=options.subcommand, own_checkpoints=VARIABLE in module.text
        )
        return Adoption(profile, module.text, module.text, encoding=encoding)
    profile = describe_script(module, choose_framework(script))
    drop_magics(script)
    print_displays(script)
    parser = _edit(script, profile)
    leave_files(script)
    leave_paths_behind(script, [each.flag.default for each in parser.options.declared])
    text, changes = script.finish()
    flags = list_flags(parser)
    defaults = {str(flag.role): flag.default for flag in flags if isinstance(flag.default, int | float)}
    profile = add_options(profile, flags, {**defaults, **parser.numbers})
    profile = structs.replace(profile, subcommand=parser.options.subcommand, own_checkpoints=VARIABLE in text)
    return Adoption(profile, module.text, text, changes, tuple(script.obstacles), encoding)


def _edit(script: Script, profile: ScriptProfile) -> Parser:
    if profile.framework == "lightning":
        return adopt_lightning(script)
    if profile.framework == "transformers":
        return adopt_transformers(script)
    if profile.framework == "accelerate":
        return adopt_accelerate(script)
    if profile.framework == "keras":
        return adopt_keras(script)
    draws = profile.has_dropout or profile.random_augmentation or profile.draws_noise
    return adopt_plain(script, random=draws)


def _tell_framework(module: Module) -> Framework:
    """The library of a script that is adopted."""
    tops = {name.partition(".")[0] for name, _, _ in module.imports}
    if {"lightning", "pytorch_lightning"} & tops and module.called("Trainer"):
        return "lightning"
    if {"transformers", "trl"} & tops and list_trainers(module):
        return "transformers"
    if module.called("Accelerator"):
        return "accelerate"
    return "keras" if "tensorflow" in tops and module.called("fit") else "torch"
