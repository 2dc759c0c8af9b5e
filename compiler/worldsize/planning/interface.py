"""What planning needs to know of the component behind a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from worldsize.planning.model import Launcher


class Interface(Struct, frozen=True):
    """The declared side of a step's component."""

    inputs: Mapping[str, Any] = field(default_factory=dict)  # name -> default, None where it has none
    launcher: Launcher = "none"  # the component's distribution type
    instance_count: int | None = None  # the component's own resources
    shm_size: str | None = None
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # name -> values, where listed
    outputs: frozenset[str] = frozenset()
