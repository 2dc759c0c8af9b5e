"""A retrained pipeline as one page: its looks over time as a picture, and a table with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from worldsize.base.shown_text import escape, mark_code
from worldsize.base.wording import format_duration, plural
from worldsize.reporting.markup import cards, table
from worldsize.reporting.page import wrap_page
from worldsize.running.show.firings import (
    MAX_DRAWN,
    TRAINED,
    WORDS,
    Firing,
    Retrained,
    draw_firings,
    draw_key,
    show_time,
)

_TONES = {
    "promote": "succeeded",
    "failed": "failed",
    "stop": "failed",
    "running": "running",
    "wait": "stopped",
}


def render_firings(retrained: Retrained, read_at: datetime) -> str:
    """The page as text, without scripts and requests; everything that comes from runs is escaped."""
    name = escape(retrained.name, 100)
    return wrap_page(f"{name}, retrained", _render_head(retrained), _list_sections(retrained), read_at)


def _render_head(retrained: Retrained) -> str:
    firings = retrained.firings
    trained = [firing for firing in firings if firing.action in TRAINED]
    rows = [("looks", str(len(firings))), ("trainings", str(len(trained)))]
    rows.append(("promotions", str(sum(firing.action == "promote" for firing in firings))))
    if retrained.champion is not None:
        rows.append(
            (f"champion of {escape(retrained.model, 40)}", f"version {escape(retrained.champion, 20)}")
        )
    seconds = sum(firing.seconds or 0 for firing in trained)
    rows += [("time of all runs", format_duration(seconds))] if trained else []
    since = f", the champion since {escape(retrained.since, 30)}" if retrained.since else ""
    period = ""
    if firings:
        period = f"{show_time(firings[0].time)} to {show_time(firings[-1].time)} UTC"
    title = f"<h1>{escape(retrained.name, 100)}</h1>\n"
    return f'{title}<p class="quiet">retrained {period}{since}</p>\n{cards(rows)}'


def _list_sections(retrained: Retrained) -> Iterator[tuple[str, str, str]]:
    firings = retrained.firings
    actions = {firing.action for firing in firings}
    content = "<p>Nobody has looked at it yet.</p>"
    if firings:
        content = f'<div class="year">{draw_firings(firings)}</div>{draw_key(sorted(actions))}'
    left = len(firings) - MAX_DRAWN
    if left > 0:
        content += f'<p class="note">{plural(left, "earlier look")} not drawn and not listed.</p>'
    yield "picture", "Over time", content
    yield "firings", "Looks", _render_table(retrained)


def _render_table(retrained: Retrained) -> str:
    """The newest first; looks that follow one another and say the same are one row."""
    rows: list[tuple[str, ...]] = []
    for firing, count in reversed([*_join_alike(retrained.firings[-MAX_DRAWN:])]):
        word = escape(WORDS.get(firing.action, firing.action))
        decided = f'<span class="state {_TONES.get(firing.action, "other")}">{word}</span>'
        if count > 1:
            decided += f'<br><small class="quiet">{count} times in a row</small>'
        why = mark_code(escape(firing.reason, 600))
        if firing.why:
            why += f'<br><small class="quiet">{mark_code(escape(firing.why, 600))}</small>'
        cells = (
            show_time(firing.time),
            decided,
            why,
            _show_models(firing),
            "" if firing.rows is None else f"{firing.rows:,}",
            "" if firing.seconds is None else format_duration(firing.seconds),
            _link(retrained, firing),
        )
        rows.append(cells)
    headings = ("when (UTC)", "decision", "why", "champion, new model", "rows", "time", "run")
    return table("Looks", headings, rows, frozenset({4, 5})) if rows else ""


def _join_alike(firings: Sequence[Firing]) -> Iterator[tuple[Firing, int]]:
    """The first of looks in a row that say the same, with their number; a run stays alone."""
    for _, alike in groupby(firings, lambda firing: (firing.run, firing.action, firing.reason)):
        looks = list(alike)
        yield looks[0], len(looks)


def _show_models(firing: Firing) -> str:
    """The metric of both models and their difference."""
    if firing.new is None:
        return ""
    old = "" if firing.old is None else f"{firing.old:.4g}, "
    text = f"{escape(firing.metric, 60)} {old}{firing.new:.4g}"
    if firing.difference is not None:
        ends = (firing.difference[name] for name in ("low", "high") if name in firing.difference)
        interval = " to ".join(f"{end:.3g}" for end in ends)
        better = f"{firing.difference['value']:.3g} better"
        text += f'<br><small class="quiet">{better} ({interval})</small>'
    if firing.version is not None:
        text += f'<br><small class="quiet">version {escape(firing.version, 20)}</small>'
    return text


def _link(retrained: Retrained, firing: Firing) -> str:
    if firing.run is None:
        return ""
    run, starts = escape(firing.run, 60), f"<br>{firing.starts} starts" if firing.starts > 1 else ""
    address = retrained.links.get(firing.run)
    return (f'<a href="{escape(address, 2000)}">{run}</a>' if address else run) + starts
