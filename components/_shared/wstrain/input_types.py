"""Parsers of the values that a component's inputs have on its command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any


def boolean(text: str) -> bool:
    """Parse a Boolean as Azure ML renders it: ``True`` or ``False``, in any case."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"`{text}` is neither true nor false")
    return text.lower() == "true"


def number(low: float, *, above: bool = False, below: float = math.inf) -> Callable[[str], float]:
    """Return a parser of finite numbers from ``low`` (or only ``above`` it) to less than ``below``."""

    def parse(text: str) -> float:
        value: float = _convert(float, text, "a number")
        if not (value > low if above else value >= low) or not value < below:
            upper = "" if below == math.inf else f" and below {below:g}"
            raise argparse.ArgumentTypeError(
                f"`{text}` must be {'above' if above else 'at least'} {low:g}{upper}"
            )
        return value

    return parse


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from ``low`` to ``high``."""

    def parse(text: str) -> int:
        value: int = _convert(int, text, "a whole number")
        if value < low or (high is not None and value > high):
            upper = "" if high is None else f" and at most {high}"
            raise argparse.ArgumentTypeError(f"`{text}` must be at least {low}{upper}")
        return value

    return parse


def _convert(kind: Callable[[str], Any], text: str, name: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not {name}") from None
