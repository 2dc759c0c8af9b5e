"""How states, times, durations, values and triggers are said on every page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from itertools import islice, product
from typing import Any

from worldsize.base.wording import format_duration, join_words, plural
from worldsize.serving.database import mapping_of, text_of
from worldsize.serving.jobs.records import JobRecord, parse_time

NONE = "–"
SHORT, LONG = 300, 100_000  # characters of a text in a line, and of a whole document
_TONES = {
    "Completed": "good",
    "Finished": "good",
    "Succeeded": "good",
    "Enabled": "good",
    "Disabled": "quiet",
    "Failed": "bad",
    "NotResponding": "bad",
    "Canceled": "quiet",
    "NotStarted": "quiet",
    "Running": "busy",
    "Finalizing": "busy",
}
_WORDS = {
    "NotStarted": "Not started",
    "CancelRequested": "Cancel requested",
    "NotResponding": "Not responding",
}
_TYPES = {"AutoML": "AutoML"}


def cut(text: object, most: int = SHORT) -> str:
    """A text that a page can show: its beginning, and how much more there is."""
    words = str(text)
    if len(words) > most:
        words = f"{words[:most]}… ({len(words) - most:,} more characters)"
    return words.encode("utf-8", "backslashreplace").decode()


def document_words(document: Any) -> str:
    """A document as indented JSON, no longer than a page shows."""
    return cut(json.dumps(document, indent=2, ensure_ascii=False), LONG)


def status_words(status: str) -> str:
    """``Cancel requested`` for ``CancelRequested``."""
    return _WORDS.get(status, status)


def status_tone(status: str) -> str:
    """``good``, ``bad``, ``busy``, ``waiting`` or ``quiet``: which colour and sign a state has."""
    return _TONES.get(status, "waiting")


def type_words(kind: str) -> str:
    """``Pipeline`` for ``pipeline``."""
    return _TYPES.get(kind, kind[:1].upper() + kind[1:])


def duration_words(job: JobRecord, now: datetime | None = None) -> str:
    """How long a job has run."""
    seconds = job.seconds(now)
    return NONE if seconds is None else format_duration(seconds)


def time_words(text: str | None) -> str:
    """A time in UTC, to the second."""
    time = parse_time(text)
    return NONE if time is None else f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def value_words(value: Any) -> str:
    """A value of a document: text as it is, anything else as JSON."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    return cut(json.dumps(value, ensure_ascii=False))


def number_words(value: float | None) -> str:
    """A metric: four significant digits, whole numbers as they are."""
    if value is None:
        return NONE
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e9 else f"{value:.4g}"


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
    return [str(item) for item in value[:31]] if isinstance(value, list) else []
