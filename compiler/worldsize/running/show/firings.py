"""The looks at a retrained pipeline as one picture over time: models, their differences, data and time.

The colours are those of the page that shows it, and have a value of their own for an SVG file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from msgspec import Struct, field

from worldsize.base.shown_text import escape
from worldsize.base.wording import format_duration, plural, show_number

MAX_DRAWN = 1000  # looks, the newest
WIDTH, LEFT, RIGHT = 1040, 74, 14
_GAP, _HEAD, _STRIP = 20, 18, 26
_SPAN = WIDTH - LEFT - RIGHT
_LATEST = 2e11  # the year 8307
_COLOURS = {
    "champion": "var(--c1, #1f6fbf)", "promote": "var(--good, #1a7f4b)", "keep": "var(--c2, #d1651b)",
    "stop": "var(--bad, #c0322b)", "failed": "var(--bad, #c0322b)", "wait": "var(--odd, #9a6700)",
    "rollback": "var(--c4, #8250b8)", "quiet": "var(--quiet, #5b6675)", "line": "var(--line, #dde2e9)",
}  # fmt: skip
WORDS = {
    "promote": "promoted", "keep": "champion kept", "none": "nothing to do", "wait": "waited",
    "stop": "stopped", "failed": "failed", "running": "running", "interrupted": "interrupted",
    "rollback": "rolled back",
}  # fmt: skip
TRAINED = frozenset({"promote", "keep", "failed", "running", "interrupted"})


class Firing(Struct, frozen=True):
    """One look: what was decided and why, and what came of it. Unknown values are None."""

    time: float  # of the look, in seconds since 1970, as all times
    action: str  # a key of WORDS
    reason: str
    run: str | None = None
    why: str = ""  # the run was started
    version: str | None = None  # that was registered
    champion: str | None = None  # version after it
    metric: str | None = None
    old: float | None = None  # the champion's value on the rows of the comparison
    new: float | None = None  # the challenger's
    difference: Mapping[str, float] | None = None  # value, low, high, rows; positive is better
    rows: int | None = None  # that were read
    drift: float | None = None  # the largest PSI of a column
    seconds: float | None = None
    starts: int = 1


class Retrained(Struct, frozen=True):
    """A retrained pipeline: its looks, the oldest first, and the champion that the registry has now."""

    name: str
    firings: Sequence[Firing] = ()
    model: str | None = None
    champion: str | None = None
    since: str | None = None  # when it became the champion
    links: Mapping[str, str] = field(default_factory=dict)  # addresses of runs, by their ids


class _Axis(Struct, frozen=True):
    """Where values are drawn: ``low`` at the bottom ``y`` + ``height``, ``high`` at ``y``."""

    y: float
    height: float
    low: float
    high: float

    def place(self, value: float) -> float:
        """The coordinate of a value; one outside of the axis is at its end."""
        share = (value - self.low) / (self.high - self.low)
        return self.y + self.height * (1 - min(1.0, max(0.0, share)))


def draw_firings(firings: Sequence[Firing]) -> str:
    """An SVG element with all panels that have values; empty without a look."""
    shown = [firing for firing in firings if 0 <= firing.time < _LATEST][-MAX_DRAWN:]
    if not shown:
        return ""
    times = [firing.time for firing in shown]
    start, end = min(times), max(times)
    margin = max(1800.0, (end - start) * 0.015)
    scale = _SPAN / (end - start + 2 * margin)

    def place(time: float) -> float:
        return LEFT + (time - start + margin) * scale

    y, parts = 0.0, list[str]()
    for title, height, draw in _list_panels(shown):
        parts.append(_text(0, y + 12, title, "start", weight=600))
        parts.append(draw(y + _HEAD, height, place))
        y += _HEAD + height + _GAP
    parts.append(_draw_strip(shown, y, place))
    y += _STRIP
    ticks = "".join(_draw_tick(place(time), y, text) for time, text in _list_ticks(start, end))
    label = escape(_describe(shown))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24:g}" role="img"'
        f' aria-label="{label}" style="font:12px system-ui,sans-serif;fill:{_COLOURS["quiet"]}">'
        f"{ticks}{''.join(parts)}</svg>"
    )


_Draw = Callable[[float, float, Callable[[float], float]], str]


def _list_panels(firings: Sequence[Firing]) -> Iterator[tuple[str, float, _Draw]]:
    metric = next((firing.metric for firing in reversed(firings) if firing.metric), None)
    measured = [firing for firing in firings if firing.new is not None and firing.metric == metric]
    if measured:
        title = f"{metric}: the champion (line) and each new model"
        yield title, 150, lambda y, height, place: _draw_metric(measured, y, height, place)
    compared = [firing for firing in measured if firing.difference]
    if compared:
        title = f"Improvement in {metric} over the champion, with its 95 % interval"
        yield title, 100, lambda y, height, place: _draw_differences(compared, y, height, place)
    for name, title, show in (
        ("rows", "Rows read", show_number),
        ("drift", "Drift: the largest PSI of a column", show_number),
        ("seconds", "Time of the run", format_duration),
    ):
        values = [(f, float(getattr(f, name))) for f in firings if getattr(f, name) is not None]
        if values:
            yield title, 44, _make_bars(values, show)


def _draw_metric(firings: Sequence[Firing], y: float, height: float, place: Callable[[float], float]) -> str:
    steady = [value for firing in firings for value in _list_champions(firing)]
    values = [firing.new for firing in firings if firing.new is not None]
    axis = _make_axis(y, height, steady or values, values)
    line, x = "", 0.0
    for firing in firings:
        x = place(firing.time)
        line += "".join(f" {x:.1f},{axis.place(value):.1f}" for value in _list_champions(firing))
    style = f"fill:none;stroke:{_COLOURS['champion']};stroke-width:2"
    text = _draw_scale(axis, show_number) + f'<polyline points="{line.strip()}" style="{style}"/>'
    for firing in firings:
        assert firing.new is not None
        outside = "" if axis.low <= firing.new <= axis.high else ", outside of the picture"
        title = f"{_say(firing)}; {firing.metric} {show_number(firing.new)}{outside}"
        text += _draw_mark(firing.action, place(firing.time), axis.place(firing.new), title)
    return text


def _list_champions(firing: Firing) -> list[float]:
    """The values of the champion before and after a firing."""
    values = [firing.old] if firing.old is not None else []
    return values + ([firing.new] if firing.action == "promote" and firing.new is not None else [])


def _draw_differences(
    firings: Sequence[Firing], y: float, height: float, place: Callable[[float], float]
) -> str:
    known = [firing.difference for firing in firings if firing.difference]
    values = [each["value"] for each in known]
    ends = [
        end for each in known for end in (each.get("low", each["value"]), each.get("high", each["value"]))
    ]
    middle = sorted(map(abs, values))[len(values) // 2]
    steady = [end for end in ends if abs(end) <= 6 * middle]
    axis = _make_axis(y, height, [0.0, *steady], ends)
    zero = axis.place(0)
    text = _draw_scale(axis, show_number) + _line(
        LEFT, zero, LEFT + _SPAN, zero, colour=_COLOURS["quiet"], width=1
    )
    for firing, each in zip(firings, known, strict=True):
        x, value = place(firing.time), each["value"]
        low, high = each.get("low", value), each.get("high", value)
        text += _line(x, axis.place(low), x, axis.place(high), colour=_find_colour(firing.action), width=1.5)
        title = f"{_say(firing)}; {show_number(value)} ({show_number(low)} to {show_number(high)})"
        text += _draw_mark(firing.action, x, axis.place(value), title)
    return text


def _make_bars(values: Sequence[tuple[Firing, float]], show: Callable[[float], str]) -> _Draw:
    def draw(y: float, height: float, place: Callable[[float], float]) -> str:
        axis = _Axis(y, height, 0.0, max(*(value for _, value in values), 1e-9))
        width = min(10.0, max(1.5, 0.5 * _SPAN / len(values)))
        bars = "".join(
            f'<rect x="{place(firing.time) - width / 2:.1f}" y="{axis.place(value):.1f}" width="{width:.1f}"'
            f' height="{max(0.5, axis.y + height - axis.place(value)):.1f}"'
            f' style="fill:{_find_colour(firing.action)};opacity:.75">'
            f"<title>{escape(_say(firing))}; {escape(show(value))}</title></rect>"
            for firing, value in values
        )
        top = _text(LEFT - 8, y + 10, show(axis.high), "end")
        return (
            top + _line(LEFT, y + height, LEFT + _SPAN, y + height, colour=_COLOURS["line"], width=1) + bars
        )

    return draw


def _draw_strip(firings: Sequence[Firing], y: float, place: Callable[[float], float]) -> str:
    marks = (_draw_mark(firing.action, place(firing.time), y + 9, _say(firing)) for firing in firings)
    return _text(LEFT - 8, y + 13, "Decision", "end") + "".join(marks)


def _draw_mark(action: str, x: float, y: float, title: str) -> str:
    """A mark whose form says what was decided, beside its colour."""
    colour, drawn = _find_colour(action), f"fill:{_find_colour(action)}"
    if action == "promote":
        shape = f'<path d="M{x:.1f} {y - 6:.1f}l5.5 10h-11z" style="{drawn}"/>'
    elif action == "keep":
        shape = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" style="fill:none;stroke:{colour};stroke-width:2"/>'
        )
    elif action in ("none", "running", "interrupted"):
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{1.8 if action == "none" else 3}" style="{drawn}"/>'
    elif action == "rollback":
        shape = f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6-6z" style="{drawn}"/>'
    elif action == "failed":
        path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0-8l-8 8"
        shape = f'<path d="{path}" style="fill:none;stroke:{colour};stroke-width:2.4"/>'
    else:
        shape = f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" style="{drawn}"/>'
    return f"<g><title>{escape(title)}</title>{shape}</g>"


def draw_key(actions: Sequence[str]) -> str:
    """What the marks mean, as an SVG element."""
    parts, x = [], 8.0
    for action, word in WORDS.items():
        if action in actions:
            parts.append(_draw_mark(action, x, 9, word) + _text(x + 11, 13, word, "start"))
            x += 36 + 7 * len(word)
    style = f"font:12px system-ui,sans-serif;fill:{_COLOURS['quiet']};max-width:{x:g}px"
    return f'<svg viewBox="0 0 {x:g} 18" style="{style}" aria-hidden="true">{"".join(parts)}</svg>'


def _find_colour(action: str) -> str:
    return _COLOURS.get(action, _COLOURS["quiet"])


def _say(firing: Firing) -> str:
    continued = f", {firing.starts} starts" if firing.starts > 1 else ""
    return f"{show_time(firing.time)}: {WORDS.get(firing.action, firing.action)}{continued}: {firing.reason}"


def show_time(time: float) -> str:
    """A time of a look in UTC, to the minute."""
    return f"{_to_time(time):%Y-%m-%d %H:%M}"


def _to_time(time: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=min(max(time, 0.0), _LATEST))


def _describe(firings: Sequence[Firing]) -> str:
    counts = {word: sum(f.action == action for f in firings) for action, word in WORDS.items()}
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    looks, start, end = plural(len(firings), "look"), firings[0].time, firings[-1].time
    return f"{looks} from {show_time(start)} to {show_time(end)}: {listed}"


def _make_axis(y: float, height: float, steady: Sequence[float], values: Sequence[float]) -> _Axis:
    """An axis for most of the steady values, and for all others that are not far off."""
    ordered = sorted(steady)
    tenth = len(ordered) // 10
    low, high = ordered[tenth], ordered[-1 - tenth]
    reach = 1.5 * (high - low) or 0.5 * abs(high) or 1.0
    near = [value for value in (low, high, *steady, *values) if low - reach <= value <= high + reach]
    low, high = min(near), max(near)
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 0.5
    return _Axis(y, height, low - margin, high + margin)


def _draw_scale(axis: _Axis, show: Callable[[float], str]) -> str:
    rough = (axis.high - axis.low) / 3
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.7)
    text, count = "", math.ceil(axis.low / step)
    while count * step <= axis.high:
        y = axis.place(count * step)
        text += _line(LEFT, y, LEFT + _SPAN, y, colour=_COLOURS["line"], width=0.8)
        text += _text(LEFT - 8, y + 4, show(count * step), "end")
        count += 1
    return text


_HOUR, _DAY = 3600, 86400


def _list_ticks(start: float, end: float) -> Iterator[tuple[float, str]]:
    """At most a dozen times with their words."""
    if end - start > 70 * _DAY:
        stride = max(1, math.ceil((end - start) / (12 * 30.4 * _DAY)))
        first = _to_time(start)
        month = first.year * 12 + first.month  # the one after the first, counted from 0
        while (day := datetime(month // 12, month % 12 + 1, 1, tzinfo=timezone.utc)).timestamp() <= end:
            yield day.timestamp(), f"{day:%b %Y}"
            month += stride
        return
    steps = [_HOUR / 4, _HOUR, 6 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY]
    step = next((step for step in steps if (end - start) / step <= 10), 14 * _DAY)
    time = float(math.ceil(start / step) * step)
    while time <= end:
        yield time, f"{_to_time(time):%d %b}" if step >= _DAY else f"{_to_time(time):%d %b %H:%M}"
        time += step


def _draw_tick(x: float, y: float, text: str) -> str:
    return _line(x, 0, x, y, colour=_COLOURS["line"], width=0.6) + _text(x, y + 16, text, "middle")


def _line(*ends: float, colour: str, width: float) -> str:
    x, y, to_x, to_y = ends
    style = f"stroke:{colour};stroke-width:{width:g}"
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" style="{style}"/>'


def _text(x: float, y: float, text: str, anchor: str, *, weight: int = 400) -> str:
    style = f' style="font-weight:{weight}"' if weight != 400 else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'
