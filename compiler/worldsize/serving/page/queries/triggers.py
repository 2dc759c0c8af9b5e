"""Says in words when a schedule's trigger fires."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from typing import Any

from worldsize.base.wording import join_words, plural
from worldsize.serving.page.queries.wording import mapping_of, text_of


def trigger_words(trigger: Mapping[str, Any]) -> str:
    """When a trigger fires: ``cron 0 3 * * 1``, ``every 2 weeks on Monday at 03:00``."""
    if text_of(trigger, "triggerType").lower() == "cron":
        return f"cron {text_of(trigger, 'expression')}"
    pattern = mapping_of(trigger, "schedule")
    unit, interval = text_of(trigger, "frequency").lower() or "time", trigger.get("interval")
    count = interval if isinstance(interval, int) else 1
    words = f"every {unit}" if count == 1 else f"every {plural(count, unit)}"
    if days := _words(pattern, "weekDays") or _words(pattern, "monthDays"):
        words += f" on {'day ' if not pattern.get('weekDays') else ''}{join_words(days, 'and')}"
    hours, minutes = _words(pattern, "hours"), _words(pattern, "minutes") or ["0"]
    times = [f"{hour:0>2}:{minute:0>2}" for hour, minute in islice(product(hours, minutes), 6)]
    return f"{words} at {join_words(times, 'and')}" if times else words


def _words(document: Mapping[str, Any], key: str) -> list[str]:
    value = document.get(key)
    return [str(each) for each in value[:31]] if isinstance(value, list) else []
