"""A finding about a configuration, what is known besides it, and access to its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from wstrain_deepspeed.config.builder import Plan

Path = tuple[str | int, ...]
"""The place of a value: ``("zero_optimization", "stage")``; in a list, the position."""

KINDS = (
    "batch", "batch-missing", "key-ignored", "key-refused", "type", "text", "value", "auto", "twice",
    "unused", "stage-refused", "stage-ignored", "precision", "loss-scale", "path", "deprecated", "removed",
    "optimizer", "plan", "schedule",
)  # fmt: skip
ADVICE = frozenset({"key-ignored", "text", "unused", "stage-ignored", "deprecated", "removed"})
"""Kinds with which DeepSpeed starts, but ignores the setting or understands it differently."""


class Finding(NamedTuple):
    """One fault: its kind, its place, what is wrong and what to write."""

    kind: str
    path: Path
    message: str
    help: str
    on_key: bool = False  # the key is at fault, not its value
    related: tuple[tuple[Path, str], ...] = ()  # other places involved, with a label

    def __str__(self) -> str:
        """One line for a log."""
        place = ".".join(str(part) for part in self.path)
        return f"{place}: {self.message}; {self.help}" if place else f"{self.message}; {self.help}"


class Known(NamedTuple):
    """What is known besides the configuration. None is unknown and is not checked.

    ``world`` counts the processes that share the global batch. ``maker`` is the optimizer that the program
    hands to ``deepspeed.initialize``, "" where its name cannot be told; ``schedules`` whether it sets the
    learning rate, too. ``refuses`` is True where it stops at a second optimizer, as Accelerate does.
    ``fills_auto`` is True where Hugging Face's integration replaces ``"auto"``, False where DeepSpeed gets
    the file as it is. ``exists`` tells whether a folder is there, on the machine that trains.
    """

    world: int | None = None
    micro_batch: int | None = None
    accumulation: int | None = None
    stage: int | None = None
    precision: str | None = None
    max_gradient_norm: float | None = None
    maker: str | None = None
    schedules: bool = False
    refuses: bool = False
    pinned: bool = False  # the version of DeepSpeed is that of the tables
    fills_auto: bool | None = None
    exists: Callable[[str], bool] | None = None

    @classmethod
    def from_plan(cls, plan: Plan, exists: Callable[[str], bool] | None = None) -> Known:
        """Return what a plan says, for a program that makes the optimizer itself."""
        return cls(
            world=plan.world_size,
            micro_batch=plan.micro_batch,
            accumulation=plan.accumulation,
            stage=plan.zero_stage,
            precision=plan.precision,
            max_gradient_norm=plan.max_gradient_norm,
            maker=plan.optimizer,
            schedules=True,
            refuses=True,
            pinned=True,
            fills_auto=False,
            exists=exists,
        )


def value_at(config: Mapping[str, Any], *path: str) -> Any:
    """Return the value at a path, or None if it is absent."""
    value: Any = config
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def block_at(config: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the block at a path, or an empty one."""
    value = value_at(config, *path)
    return value if isinstance(value, Mapping) else {}


def as_integer(value: object) -> int | None:
    """Return a whole number as JSON writes it, ``16`` or ``1e3``; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if abs(value) < 2**63 else None


def as_number(value: object) -> float | None:
    """Return a number; None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_on(value: object) -> bool:
    """Whether a switch is on, as DeepSpeed's models read it: ``"true"`` is, too."""
    return value is True or (isinstance(value, str) and value.lower() in ("true", "yes", "on", "t", "y", "1"))


def read_stage(config: Mapping[str, Any]) -> int | None:
    """Return the ZeRO stage: 0 by default, None if it is not known."""
    zero = config.get("zero_optimization", {})
    if isinstance(zero, bool):
        return int(zero)
    if not isinstance(zero, Mapping):
        return None
    value = zero.get("stage", 0)
    return 0 if value == "auto" else as_integer(value)


def as_json(value: object) -> str:
    """Return a value as JSON writes it, cut short."""
    import json  # only a fault shows a value

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:59] + "…"
