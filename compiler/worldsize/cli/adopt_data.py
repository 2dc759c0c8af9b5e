"""The data of a script that is adopted: which option takes it, and where it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from worldsize.adopting.options.arguments import find_given, read_arguments
from worldsize.adopting.project.inputs import find_path

if TYPE_CHECKING:
    from worldsize.adopting.model import ScriptProfile


def choose_data_option(profile: ScriptProfile, arguments: Sequence[str]) -> ScriptProfile:
    """The script with an option for its data: if none is named so, the only one that needs a value."""
    given = read_arguments(profile.flags, arguments, profile.subcommand)
    named = [each.flag for each in given if each.is_named]
    lacking = [
        each
        for each in profile.flags
        if each.required and each.role is None and each.type == "str" and each not in named
    ]
    if profile.flag("data") is not None or len(lacking) != 1:
        return profile
    taking = structs.replace(lacking[0], role="data")
    return structs.replace(
        profile, flags=tuple(taking if each is lacking[0] else each for each in profile.flags)
    )


def find_data(profile: ScriptProfile, script: Path, arguments: Sequence[str] = ()) -> Path | None:
    """The data that the option for it names, where that lies here."""
    flag = profile.flag("data")
    return find_path(profile, flag, script, arguments) if flag is not None else None


def explain_missing(profile: ScriptProfile, data: Path | None, arguments: Sequence[str]) -> str | None:
    """Why a script has no data to train on here; None if it has, or needs none that is known."""
    flag = profile.flag("data")
    given = find_given(flag, profile.flags, arguments, profile.subcommand)
    if flag is None or data is not None or given is not None:
        return None
    if flag.required:
        return f"`{flag.option}` has no default: name the data with `--data PATH`"
    if flag.default:
        return f"its data `{flag.default}` is not here: name it with `--data PATH`"
    return None
