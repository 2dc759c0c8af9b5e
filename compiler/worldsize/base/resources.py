"""Where the components and schemas lie: inside an installed wheel, or beside the compiler in a clone."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_IN_WHEEL = _PACKAGE / "_data"
_IN_CLONE = _PACKAGE.parent.parent


def _root() -> Path:
    return _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CLONE


@cache
def components() -> Path:
    """The folder that holds one sub-folder a built-in component."""
    return _root() / "components"


@cache
def component_names() -> tuple[str, ...]:
    """The names of the built-in components, sorted: the folders with a ``component.yml``."""
    return tuple(sorted(path.parent.name for path in components().glob("*/component.yml")))


@cache
def component_file(name: str) -> Path:
    """The ``component.yml`` of a built-in component, whether or not there is one of this name."""
    return components() / name / "component.yml"


def schemas() -> Path:
    """The folder that holds the published JSON Schemas."""
    return _root() / "schemas"


def built_in_files() -> dict[str, Path]:
    """The built-in components, by the name that ``uses:`` has for them, and their files."""
    return {name: component_file(name) for name in component_names()}
