"""Adopt a script: read it, choose how, and give its new text."""

from __future__ import annotations

from pathlib import Path

from worldsize.adopting.model import Adoption
from worldsize.adopting.options import read_options
from worldsize.adopting.profile import describe_script
from worldsize.adopting.reading import read_script


def adopt_script(path: Path) -> Adoption:
    """The script of one GPU for several processes; nothing is written, and nothing of it runs.

    Raises:
        AdoptError: It cannot be read, or it is not a script that can be adopted safely.
    """
    module, encoding = read_script(path)
    flags = tuple(each.flag for each in read_options(module).declared)
    profile = describe_script(module, "torch", flags, {})
    return Adoption(profile, module.text, module.text, encoding=encoding)
