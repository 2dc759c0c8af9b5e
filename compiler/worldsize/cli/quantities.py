"""Estimated quantities in tables: as many digits as the estimate knows, and bounds in brackets."""

from __future__ import annotations

from worldsize.base.wording import show_digits
from worldsize.planning.estimates.model import Interval


def show_interval(interval: Interval, unit: str = "", divisor: float = 1.0) -> str:
    """``1,230 USD (1,100 to 1,380)``: the expected value and its bounds, divided."""
    bounds = (interval.low / divisor, interval.expected / divisor, interval.high / divisor)
    low, expected, high = map(show_digits, bounds)
    return f"{expected}{f' {unit}' if unit else ''} ({low} to {high})"


def show_share(share: float, decimals: int = 0) -> str:
    """``93 %``."""
    return f"{share:.{decimals}%}".replace("%", " %")
