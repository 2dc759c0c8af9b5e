"""The timeline: when each step and its ranks ran, and who waited for whom."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from worldsize.base.shown_text import escape
from worldsize.base.wording import format_duration, plural
from worldsize.reporting.markup import table
from worldsize.reporting.model import Period, RankSample, RunFacts, StepFacts
from worldsize.running.show.views import describe_state

MAX_STEPS = 60
MAX_RANKS = 16  # of one step
MAX_TICKS = 5
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
PAUSE_SHARE = 0.04  # of the width, for a pause of any length


class Axis:
    """Maps times to shares of the width; a pause between two runners takes little of it.

    Args:
        period: The first and the last time.
        pauses: Inside of it.
    """

    def __init__(self, period: Period, pauses: Sequence[Period]) -> None:
        self.start = period.start
        self.pauses = [pause for pause in pauses if pause.start >= period.start and pause.end <= period.end]
        self.active = max(period.seconds - sum(pause.seconds for pause in self.pauses), 1e-3)
        self._pause = self.active * PAUSE_SHARE
        self.whole = self.active + self._pause * len(self.pauses)

    def place(self, time: float) -> float:
        """The position of a time, in percent."""
        passed = time - self.start
        for pause in self.pauses:
            if time >= pause.end:
                passed -= pause.seconds - self._pause
            elif time > pause.start:
                passed -= (time - pause.start) * (1 - self._pause / pause.seconds)
        return min(max(100 * passed / self.whole, 0.0), 100.0)

    def style(self, period: Period) -> str:
        """The position of a bar."""
        left = self.place(period.start)
        return f"left:{left:.3f}%;width:{max(self.place(period.end) - left, 0):.3f}%"


def render_timeline(facts: RunFacts) -> str:
    """The timeline as a list, one step and rank a line; empty if no step has started."""
    attempts = [attempt for step in facts.steps.values() for attempt in step.attempts]
    if not attempts:
        return ""
    started = facts.record.started.timestamp() if facts.record.started else attempts[0].period.start
    period = Period(
        min(started, *(attempt.period.start for attempt in attempts)),
        max(attempt.period.end for attempt in attempts),
    )
    axis = Axis(period, facts.pauses)
    shown = _choose_steps(list(facts.steps.values()))
    ran = sum(bool(step.attempts) for step in facts.steps.values())
    lines = "".join(_render_step(step, axis) for step in shown)
    note = ""
    if len(shown) < ran:
        note = f'<p class="note">The {len(shown)} of {ran} steps that took longest or failed.</p>'
    key = _render_key() if any(_count_ranks(step.ranks) > 1 for step in shown) else ""
    pauses = "".join(
        f'<p class="note">Hatched: {format_duration(pause.seconds)} until the run was resumed.</p>'
        for pause in axis.pauses[:3]
    )
    return f'{note}<ol class="time">{lines}{_render_ticks(axis)}</ol>{key}{pauses}'


def _render_ticks(axis: Axis) -> str:
    """Times since the start below the bars; none where pauses are cut out, after which they would not fit."""
    if axis.pauses:
        return ""
    days = 86400.0 * math.ceil(axis.active / 86400 / MAX_TICKS)
    step = next((seconds for seconds in _STEPS if axis.active / seconds <= MAX_TICKS), days)
    times = [step * number for number in range(int(axis.active / step) + 1)]
    ticks = "".join(
        f'<i style="left:{axis.place(axis.start + time):.3f}%">{_show_tick(time)}</i>' for time in times
    )
    return f'<li class="ticks" aria-hidden="true"><span></span><span>{ticks}</span><span></span></li>\n'


def _show_tick(seconds: float) -> str:
    """``0``, ``0.5 s``, ``10 s``, ``5 min``, ``1.5 h``."""
    divisor, unit = (1, "s") if seconds < 60 else (60, "min") if seconds < 3600 else (3600, "h")
    return f"{seconds / divisor:g} {unit}" if seconds else "0"


def _choose_steps(steps: Sequence[StepFacts]) -> list[StepFacts]:
    """The steps that ran, those of a sweep or a pipeline below it; of too many the longest and the failed."""
    ran = [step for step in steps if step.attempts]
    ranked = sorted(ran, key=lambda step: (step.record.state != "failed", -step.record.seconds))
    chosen = {step.record.name for step in ranked[:MAX_STEPS]}
    below: dict[str, list[StepFacts]] = {}
    for step in ran:
        parent = step.record.name.rpartition(".")[0]
        if step.record.name in chosen:
            below.setdefault(parent if parent in chosen else "", []).append(step)
    return list(_walk(below, ""))


def _walk(below: Mapping[str, Sequence[StepFacts]], parent: str) -> Iterator[StepFacts]:
    for step in below.get(parent, ()):
        yield step
        yield from _walk(below, step.record.name)


def _render_step(step: StepFacts, axis: Axis) -> str:
    bars = "".join(
        f'<i class="bar {tone}" style="{axis.style(attempt.period)}" title="{tone}"></i>'
        for attempt in step.attempts
        for tone in [escape(attempt.state, 20)]
    )
    pauses = "".join(f'<i class="pause" style="{axis.style(pause)}"></i>' for pause in axis.pauses)
    took = format_duration(sum(attempt.period.seconds for attempt in step.attempts))
    first = step.attempts[0].period.start - axis.start
    again = f", {plural(len(step.attempts), 'attempt')}" if len(step.attempts) > 1 else ""
    state = describe_state(step.record.state)
    heard = f"started after {format_duration(max(first, 0.0))}, {state}{again}"
    parent, _, name = step.record.name.rpartition(".")
    whole = escape(step.record.name, 80)
    line = _line("below" if parent else "", escape(name, 80), bars + pauses, took, heard, whole=whole)
    return line + "".join(_rank_lines(step, axis))


def _line(kind: str, name: str, bars: str, took: str, heard: str, *, whole: str = "") -> str:
    return (
        f'<li class="{kind}"><span class="name" title="{whole or name}">{name}</span>'
        f'<span class="track" aria-hidden="true">{bars}</span>'
        f'<span class="took">{took}</span><span class="heard">{escape(heard)}</span></li>\n'
    )


def _rank_lines(step: StepFacts, axis: Axis) -> Iterable[str]:
    """A line for each process of the last attempt, if it had several."""
    attempt = step.attempts[-1]
    if len(attempt.names) < 2:
        return
    for index, name in enumerate(attempt.names[:MAX_RANKS]):
        end = attempt.processes.get(name, attempt.period.end)
        period = Period(attempt.period.start, end)
        inside = _shares(step.ranks, index, period) if index < _count_ranks(step.ranks) else ""
        bar = f'<i class="bar" style="{axis.style(period)}">{inside}</i>'
        took = format_duration(end - period.start)
        yield _line("rank", escape(name.replace("-", " "), 80), bar, took, "")
    if len(attempt.names) > MAX_RANKS:
        more = plural(len(attempt.names) - MAX_RANKS, "more process")
        yield f'<li class="rank"><span class="name">{more}</span></li>\n'


def _count_ranks(samples: Sequence[RankSample]) -> int:
    return samples[-1].ranks if samples else 0


def _shares(samples: Sequence[RankSample], rank: int, period: Period) -> str:
    """How the time of a rank divides, over the time of its bar, as areas."""
    if len(samples) < 2 or period.end <= period.start:
        return ""
    computing, waiting = ["0,100"], []
    whole = period.end - period.start
    first = max(samples[0].time, period.start)
    left, width = 100 * (first - period.start) / whole, 100 * max(samples[-1].time - first, 0) / whole
    span = max(samples[-1].time - first, 1e-6)
    for before, after in itertools.pairwise(samples):
        share = divide(before, after)[rank]
        x1 = 1000 * max(before.time - first, 0) / span
        x2 = 1000 * max(after.time - first, 0) / span
        low, high = 100 - 100 * share.computing, 100 - 100 * (share.computing + share.waiting)
        computing += [f"{x1:.0f},{low:.0f}", f"{x2:.0f},{low:.0f}"]
        waiting += [f"{x1:.0f},{high:.0f}", f"{x2:.0f},{high:.0f}"]
    lower = computing[1:]
    return (
        f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" style="left:{left:.2f}%;width:{width:.2f}%">'
        f'<polygon class="computing" points="{" ".join([*computing, "1000,100"])}"/>'
        f'<polygon class="waiting-area" points="{" ".join([*waiting, *reversed(lower)])}"/></svg>'
    )


class Share(Struct, frozen=True):
    """The parts of a rank's time, from 0 to 1; the rest is exchange, update and records."""

    computing: float
    waiting: float  # for the slowest rank


def divide(before: RankSample, after: RankSample) -> list[Share]:
    """Divide the time of each rank between two samples."""
    trained = after.trained - before.trained
    computed = [max(late - early, 0.0) for early, late in zip(before.computed, after.computed, strict=True)]
    if trained <= 0:
        return [Share(0.0, 0.0)] * len(computed)
    whole, slowest = max(trained, *computed), max(computed)
    return [Share(seconds / whole, (slowest - seconds) / whole) for seconds in computed]


def _render_key() -> str:
    rows = (("--c1", "computing, loading of data included"), ("--c2", "waiting for the slowest rank"),
            ("--line", "start, exchange of gradients, update, validation, checkpoints"))  # fmt: skip
    items = "".join(f'<li><i style="background:var({colour})"></i>{text}</li>' for colour, text in rows)
    return f'<ul class="key" aria-label="Colours of the ranks">{items}</ul>'


def render_ranks(samples: Sequence[RankSample]) -> str:
    """A table of where the time of the ranks went, and which was the slowest; empty where it is unknown."""
    if len(samples) < 2 or samples[-1].ranks < 2:
        return ""
    pairs, count = list(itertools.pairwise(samples)), samples[-1].ranks
    trained = sum(max(after.trained - before.trained, 0.0) for before, after in pairs)
    intervals = [  # seconds that each rank computed
        [late - early for early, late in zip(before.computed, after.computed, strict=True)]
        for before, after in pairs
    ]
    computed = [sum(seconds) for seconds in zip(*intervals, strict=True)]
    waited = [sum(max(seconds) - seconds[rank] for seconds in intervals) for rank in range(count)]
    slowest = Counter(seconds.index(max(seconds)) for seconds in intervals)
    rows = [
        (
            f"rank {rank}",
            f"{computed[rank]:.2f} s",
            f"{waited[rank]:.2f} s",
            f"{max(trained - computed[rank] - waited[rank], 0.0):.2f} s",
            f"{slowest[rank] / len(intervals):.0%}",
        )
        for rank in range(min(count, 4 * MAX_RANKS))
    ]
    worst = max(range(count), key=lambda rank: slowest[rank])
    others = max(waited[rank] for rank in range(count))
    sentence = (
        f"Rank {worst} was most often the slowest, in {slowest[worst] / len(intervals):.0%} of the"
        f" intervals between two reports. A rank waited at most {others:.2f} s of {trained:.2f} s of"
        " training steps for a slower one."
    )
    headings = ("rank", "computing", "waiting for the slowest", "exchange, update, records", "slowest")
    return f"<p>{sentence}</p>" + table("Time of the ranks", headings, rows, frozenset({1, 2, 3, 4}))
