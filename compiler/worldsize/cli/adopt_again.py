"""`worldsize adopt --write` on a script that is adopted, and whose spec is there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from worldsize.adopting.options.arguments import read_arguments
from worldsize.adopting.project.files import Project, ProjectRequest
from worldsize.adopting.project.missing_packages import add_packages, list_missing, list_unknown
from worldsize.adopting.project.spec import CONDA_FILE
from worldsize.base import untrusted
from worldsize.base.wording import quoted_list
from worldsize.cli import common
from worldsize.fixing.apply import replace_content


def say_adopted(request: ProjectRequest, project: Project, options: Any, size: str | None) -> None:
    """Add the packages that the environment lacks, and say what is left."""
    missing = list_missing(project)
    unknown = list_unknown(project)
    is_done = f"`{request.script}` is adopted already, and its spec is there"
    common.say(f"{is_done}: nothing to write" if not missing else is_done)
    if missing:
        path = project.folder / CONDA_FILE
        before = untrusted.read_bytes(path)
        after = add_packages(before, list(missing.values()))
        reason = replace_content(path, before, after) if after is not None else "it has no list of pip"
        if reason is None:
            common.say(f"wrote {path}: {quoted_list(missing.values())}, which the script needs")
        else:
            common.say(f"  add {quoted_list(missing.values())} to `{path}` yourself: {reason}")
    for line in (*_list_unknown(unknown), *_list_unwritten(request, project, options, size)):
        common.say(f"  {line}")


def _list_unknown(modules: list[str]) -> Iterator[str]:
    for each in modules:
        yield f"the script needs `{each}`, and no package here has it: see that `{CONDA_FILE}` installs it"


def _list_unwritten(
    request: ProjectRequest, project: Project, options: Any, size: str | None
) -> Iterator[str]:
    """What the command line asks of a spec that is there already."""
    asked = [f"`instance_type: {size}`"] if size is not None else []
    if request.target.instance_count > 1:
        asked.append(f"`instance_count: {request.target.instance_count}`")
    if options.data is not None:
        asked.append(f"the path `{options.data}` of the input `data`")
    profile = request.adoption.profile
    given = read_arguments(profile.flags, options.arguments, profile.subcommand)
    others = [
        word
        for each in given
        if each.flag != profile.flag("data") or each.flag is None
        for word in each.words
    ]
    if others:
        asked.append(f"`{shlex.join(others)}` in `command`")
    yield from (f"write {each} in `{project.folder / project.spec}` yourself" for each in asked)


def find_lacking(request: ProjectRequest, project: Project) -> str | None:
    """A sentence about the packages that the environment beside an adopted script lacks."""
    done = request.adoption.text == request.adoption.source and (project.folder / CONDA_FILE).is_file()
    missing = list_missing(project) if done else {}
    if not missing:
        return None
    return f"`{CONDA_FILE}` lacks {quoted_list(missing)}, which the script needs: `--write` adds it\n"
