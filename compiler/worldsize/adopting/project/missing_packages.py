"""What an environment that was written before lacks by now."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from worldsize.adopting.project.files import Project, write_files
from worldsize.adopting.project.spec import CONDA_FILE
from worldsize.base import untrusted
from worldsize.base.wording import describe_os_error
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import Mapping, Scalar, Sequence

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class Completed(Struct, frozen=True):
    """An environment that was written before, and what the script needs by now."""

    lines: tuple[str, ...]  # packages with their pins that it did not install
    reason: str | None  # why they could not be added
    unknown: tuple[str, ...]  # modules of no package here, which it does not name


def complete_environment(project: Project) -> Completed:
    """Add the packages that the conda file on the disk does not install."""
    lines, reason = tuple(list_missing(project).values()), None
    unknown = tuple(list_unknown(project))
    if lines:
        before = untrusted.read_bytes(project.folder / CONDA_FILE)
        after = add_packages(before, lines)
        if after is None:
            return Completed(lines, "it has no list of pip", unknown)
        try:
            write_files(project.folder, {}, {project.folder / CONDA_FILE: (before, after)})
        except OSError as error:
            reason = describe_os_error(error)
    return Completed(lines, reason, unknown)


def list_missing(project: Project) -> dict[str, str]:
    """The packages, with their pins, that a project needs and its conda file on the disk does not install."""
    path = project.folder / CONDA_FILE
    wanted = _list_packages(yaml.load(CONDA_FILE, project.files[CONDA_FILE].decode()).root)
    found = _list_packages(yaml.load(str(path)).root)
    if any(text.startswith("-r") for text in found.values()):  # what else it installs is not known
        return {}
    return {
        name: text
        for name, text in wanted.items()
        if name not in found and name != "python" and not text.startswith("-")
    }


def list_unknown(project: Project) -> list[str]:
    """What no package here provides, and the conda file on the disk does not name."""
    found = _list_packages(yaml.load(str(project.folder / CONDA_FILE)).root)
    return [each for each in project.unknown if _normalise(each) not in found]


def add_packages(content: bytes, lines: Iterable[str]) -> bytes | None:
    """A conda file with more lines at the end of its list of pip; None if it has none."""
    text = content.decode()
    listed = [each for each in _list_pip(yaml.load(CONDA_FILE, text).root) if each.span.end_line]
    if not listed:
        return None
    at = listed[-1].span.line
    before = text.splitlines(keepends=True)
    dash = re.match(r"\s*-\s+", before[at - 1])
    if dash is None:
        return None
    end = "\r\n" if before[at - 1].endswith("\r\n") else "\n"
    before[at - 1] = before[at - 1].rstrip("\r\n") + end
    before[at:at] = [f"{dash[0]}{line}{end}" for line in lines]
    return "".join(before).encode()


def _list_pip(root: Any) -> list[Scalar]:
    listed = root.get("dependencies") if isinstance(root, Mapping) else None
    lines: list[Scalar] = []
    for item in listed.items if isinstance(listed, Sequence) else ():
        inner = item.get("pip") if isinstance(item, Mapping) else None
        for each in inner.items if isinstance(inner, Sequence) else ():
            lines += [each] if isinstance(each, Scalar) else []
    return lines


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _list_packages(root: Any) -> dict[str, str]:
    """The packages of a conda file by their names in one spelling."""
    listed = root.get("dependencies") if isinstance(root, Mapping) else None
    own = [
        each for each in (listed.items if isinstance(listed, Sequence) else ()) if isinstance(each, Scalar)
    ]
    packages = {}
    for each in (*own, *_list_pip(root)):
        name = _NAME.match(each.text.rpartition("::")[2])
        key = name[0] if name is not None else each.text
        packages[_normalise(key)] = each.text
    return packages
