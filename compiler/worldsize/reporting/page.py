"""A run as one self-contained page: no scripts, no other files, no requests."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from worldsize.base.shown_text import escape, mark_code
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import format_duration, plural, show_number
from worldsize.reporting import charts
from worldsize.reporting.markup import badge, cards, pairs, section, table
from worldsize.reporting.model import Picture, Quantity, RunFacts, StepFacts, SweepFacts
from worldsize.reporting.read_run import read_run
from worldsize.reporting.sweeps import rank_trials
from worldsize.reporting.timeline import render_ranks, render_timeline
from worldsize.running.model.folder import show_place
from worldsize.running.show.views import describe_state
from worldsize.showing.graph_layout import HEIGHT, WIDTH, place_steps
from wsmetrics.names import choose_headline, describe_uninformed

FILE = "report.html"
STYLE = Path(__file__).with_name("page.css")
MAX_CHARTS = 40  # of all steps
MAX_CHARTS_OF_STEP = 12
MAX_TRIALS = 200
MAX_METRICS = 200  # of one step
MAX_METRICS_OF_RUN = 3000
NO_PICTURES = "matplotlib is not installed, so there are no curves: pip install 'worldsize[run]'"
NO_CURVE = "No curve: fewer than two steps are in MLflow, in WORLDSIZE_PROGRESS or in TensorBoard's files."
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_page(facts: RunFacts) -> str:
    """The page as text.

    Everything that comes from the run is escaped, and the page is bounded: long curves are thinned, long
    lists cut, and what is left out is said.
    """
    title = f"{escape(_title(facts))}, {escape(facts.record.state)}"
    return wrap_page(title, _render_head(facts), _list_sections(facts), facts.read_at)


def wrap_page(title: str, head: str, sections: Iterable[tuple[str, str, str]], read_at: datetime) -> str:
    """A page of parts that are escaped already: each an anchor, a title and its content."""
    parts = [part for part in sections if part[2]]
    links = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title, _ in parts)
    body = "".join(section(title, content, anchor=anchor) for anchor, title, content in parts)
    style = STYLE.read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="worldsize">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n"
        f'<body>\n<a class="skip" href="#main">Skip to the content</a>\n<header>{head}'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main id="main">\n{body}</main>\n'
        f"<footer>Written {read_at.astimezone():%Y-%m-%d %H:%M:%S %Z} by worldsize.</footer>\n"
        "</body>\n</html>\n"
    )


def _title(facts: RunFacts) -> str:
    record = facts.record
    return (Path(record.pipeline).stem if record.label == record.pipeline else record.label) or record.id


def _render_head(facts: RunFacts) -> str:
    record = facts.record
    times = []
    if record.started is not None:
        times.append(f"started {record.started.astimezone():%Y-%m-%d %H:%M:%S %Z}")
        verb = "running for" if record.state == "running" else "took"
        times.append(f"{verb} {format_duration(record.seconds)}")
    if record.state == "running":
        times.append(f"as of {facts.read_at.astimezone():%H:%M:%S}")
    notes = "".join(f'<p class="note">{mark_code(escape(note))}</p>' for note in facts.notes)
    return (
        f"<h1>{escape(_title(facts), 100)} {badge(record.state)}</h1>\n"
        f'<p class="quiet">run {escape(record.id)}{"".join(f" · {text}" for text in times)}</p>{notes}\n'
        + _render_cards(facts)
    )


def _render_cards(facts: RunFacts) -> str:
    """The headline: steps done, the metrics that people look for first, and the registered model."""
    rows = [("steps done", f"{facts.record.done} of {len(facts.steps)}")]
    metrics = {name: value for step in facts.steps.values() for name, value in step.metrics.items()}
    beside = {name: f"; {escape(text, 80)}" for name, text in describe_uninformed(metrics).items()}
    names = choose_headline(metrics)[:4]
    rows += [(escape(name) + beside.get(name, ""), f"{metrics[name]:.4g}") for name in names]
    for model, _ in facts.registered[:2]:
        name = escape(model.name, 40)
        rows.append(
            (f"model {name}", f"version {escape(model.version, 20)}" if model.version else "not registered")
        )
    return cards(rows)


def _list_sections(facts: RunFacts) -> Iterator[tuple[str, str, str]]:
    """The anchor, title and content of each part; charts are counted over all of them."""
    yield "failures", "Failures", _render_failures(facts)
    yield "steps", "Steps", _render_graph(facts) + _render_steps(facts)
    yield "timeline", "Timeline", render_timeline(facts)
    for index, sweep in enumerate(facts.sweeps):
        yield f"sweep-{index}", f"Sweep: {escape(sweep.step, 80)}", _render_sweep(sweep)
    left = MAX_CHARTS
    for index, step in enumerate(_list_trained(facts)):
        wanted = charts.choose_charts(step.curves)
        most = min(MAX_CHARTS_OF_STEP, left)
        content = _render_charts(wanted, most) + _render_training(step)
        left -= min(len(wanted), most)
        yield f"training-{index}", f"Training: {escape(step.record.name, 80)}", content
    yield "evaluation", "Metrics", _render_metrics(facts)
    yield "models", "Models", _render_models(facts)
    yield "environment", "Environment", _render_environment(facts)


def _list_trained(facts: RunFacts) -> list[StepFacts]:
    """The steps with curves or planned numbers; of a sweep's trials only the winner."""
    winners = {sweep.best for sweep in facts.sweeps}
    swept = {sweep.step for sweep in facts.sweeps}
    return [
        step
        for step in facts.steps.values()
        if (step.curves or step.quantities)
        and (step.record.name.rpartition(".")[0] not in swept or step.record.name in winners)
    ]


def _render_training(step: StepFacts) -> str:
    text = ""
    if step.quantities:
        text = "<h3>Plan against actual</h3>" + _render_quantities(step.quantities)
    if ranks := render_ranks(step.ranks):
        return f"{text}<h3>Where the ranks spent their time</h3>{ranks}"
    if len(step.record.processes) > 1:
        text += '<p class="note">How long each rank waited for the others was not recorded.</p>'
    return text


def _render_charts(wanted: Sequence[charts.Chart], most: int) -> str:
    """At most so many charts."""
    if not wanted or not charts.can_draw():
        return f'<p class="note">{escape(NO_PICTURES if wanted else NO_CURVE)}</p>'
    figures = "".join(_render_figure(chart) for chart in wanted[:most])
    left = len(wanted) - most
    note = f'<p class="note">{plural(left, "more curve")} in MLflow.</p>' if left > 0 else ""
    return f'<div class="charts">{figures}</div>{note}'


def _render_figure(chart: charts.Chart) -> str:
    described = "; ".join(
        f"{name} from {show_number(points[0][1])} to {show_number(points[-1][1])}"
        for name, points in chart.curves.items()
    )
    key = "".join(
        f'<li><i style="background:var(--c{number})"></i>{escape(name.replace("_", " "), 60)}</li>'
        for number, name in enumerate(chart.curves, 1)
    )
    title = escape(chart.title.replace("_", " "), 60)
    key = f'<ul class="key">{key}</ul>' if len(chart.curves) > 1 else ""
    picture = charts.draw(chart)
    return (
        f'<figure><figcaption>{title}</figcaption><div role="img" aria-label="{title}: {escape(described)}">'
        f"{picture}</div>{key}</figure>\n"
    )


def _render_failures(facts: RunFacts) -> str:
    parts = []
    failed = [step for step in facts.steps.values() if step.record.reason]
    for step in failed[:20]:
        text = f"<h3>{escape(step.record.name, 80)}</h3><p>{mark_code(escape(step.record.reason, 1000))}</p>"
        if step.last_lines:
            lines = "\n".join(escape(line, 500) for line in step.last_lines)
            process = escape(step.record.failed_process or "its process")
            text += f'<p class="quiet">Last lines of {process}:</p><pre tabindex="0">{lines}</pre>'
        parts.append(text)
    if len(failed) > 20:
        parts.append(f'<p class="note">{len(failed) - 20} more steps failed.</p>')
    return "".join(parts)


def _render_steps(facts: RunFacts) -> str:
    rows = []
    swept = {sweep.step for sweep in facts.sweeps}
    for name, step in facts.steps.items():
        if name.rpartition(".")[0] in swept:
            continue
        record = step.record
        took = format_duration(record.seconds) if record.seconds else ""
        needs = ", ".join(escape(need, 60) for need in record.needs[:8])
        state = badge(record.state)
        if record.notes:
            state += f'<br><small class="quiet">{", ".join(map(escape, record.notes))}</small>'
        rows.append((escape(name, 80), state, took, needs))
    text = table("Steps", ("step", "state", "time", "needs"), rows, frozenset({2}))
    if len(rows) > MAX_STEPS:
        states = Counter(step.record.state for step in facts.steps.values())
        counts = ", ".join(f"{count} {escape(state)}" for state, count in states.items())
        text = f"<p>{len(rows)} steps: {counts}.</p>{text}"
    return text if rows else "<p>The steps of the run are unknown.</p>"


def _render_quantities(quantities: Sequence[Quantity]) -> str:
    rows = [
        (
            escape(quantity.name),
            escape(quantity.planned).replace("_", "_<wbr>") or "–",
            (_mark(quantity) or "–")
            + (f'<br><small class="quiet">{escape(quantity.note)}</small>' if quantity.note else ""),
        )
        for quantity in quantities
    ]
    headings = ("quantity", "planned", "actual")
    return table("Plan against actual", headings, rows, frozenset({1, 2}), aligned="right")


def _mark(quantity: Quantity) -> str:
    """The actual value, emphasised where it is not the planned one."""
    actual, differs = escape(quantity.actual), quantity.differs
    if differs is None:
        differs = "" not in (quantity.planned, quantity.actual) and quantity.planned != quantity.actual
    return f"<mark>{actual}</mark>" if differs else actual


def _render_sweep(sweep: SweepFacts) -> str:
    """The trials as a table, the best first."""
    trials = rank_trials(sweep)
    names = list(dict.fromkeys(name for trial in trials for name in trial.values))
    short = f"{sweep.step}."
    rows = [
        (
            escape(trial.name.removeprefix(short), 80) + (" ★" if trial.name == sweep.best else ""),
            badge(trial.state),
            "" if trial.value is None else show_number(trial.value),
            *(escape(_shorten_number(trial.values.get(name, "")), 60) for name in names),
        )
        for trial in trials[:MAX_TRIALS]
    ]
    searched = (escape(name, 60).replace("_", "_<wbr>") for name in names)
    headings = ("trial", "state", escape(sweep.metric, 60) or "value", *searched)
    best = f" The winner, marked ★, is {escape(sweep.best, 80)}." if sweep.best else ""
    goal = escape(sweep.goal or "optimise")
    aim = f" to {goal} {escape(sweep.metric, 80)}" if sweep.metric else " until now"
    sentence = f"<p>{plural(len(sweep.trials), 'trial')}{aim}.{best}</p>"
    left = len(trials) - MAX_TRIALS
    note = f'<p class="note">{left} more trials are in the step’s sweep.json.</p>' if left > 0 else ""
    return sentence + table("Trials", headings, rows, frozenset(range(2, len(headings)))) + note


def _shorten_number(text: str) -> str:
    """A drawn value such as ``0.00018157068639993668`` in six digits; what is no number as it is."""
    try:
        return show_number(float(text)) if "." in text else text
    except ValueError:
        return text


def _render_metrics(facts: RunFacts) -> str:
    winners = {sweep.best for sweep in facts.sweeps}
    parts, left, skipped = [], MAX_METRICS_OF_RUN, 0
    for name, step in facts.steps.items():
        if name.rpartition(".")[0] in facts.steps and name not in winners:
            continue
        parts += [_render_picture(picture, name) for picture in step.pictures]
        shown = min(len(step.metrics), MAX_METRICS)
        if shown > left:
            skipped += 1
        elif shown:
            left -= shown
            parts.append(_metrics_table(name, step.metrics))
    if skipped:
        of_steps = plural(skipped, "more step")
        parts.append(
            f'<p class="note">The metrics of {of_steps} are in their metrics.json and in MLflow.</p>'
        )
    return "".join(parts)


def _render_picture(picture: Picture, step: str) -> str:
    title = f"{escape(picture.title)} ({escape(step, 80)})"
    data = base64.b64encode(picture.data).decode()
    image = f'<img alt="{title}" src="data:image/png;base64,{data}">'
    return f"<figure><figcaption>{title}</figcaption>{image}</figure>\n"


def _metrics_table(step: str, metrics: Mapping[str, float]) -> str:
    shown = list(metrics.items())[:MAX_METRICS]
    rows = [(escape(name, 100), show_number(value)) for name, value in shown]
    title = f"Metrics of {escape(step, 80)}"
    text = table(title, ("metric", "value"), rows, frozenset({1}))
    if len(rows) > 12:
        cut = f", the first {MAX_METRICS}" if len(metrics) > MAX_METRICS else ""
        return f"<details><summary>{title}: {len(metrics)}{cut}</summary>{text}</details>"
    return f"<h3>{title}</h3>{text}"


def _render_models(facts: RunFacts) -> str:
    rows = [
        (
            escape(model.name, 100),
            f"version {escape(model.version)}" if model.version else "not registered",
            escape(gate) or "none",
            mark_code(escape(model.reason or "", 500)),
        )
        for model, gate in facts.registered[:50]
    ]
    headings = ("model", "result", "gate", "reason")
    shown = len(headings) if any(row[-1] for row in rows) else len(headings) - 1
    return table("Models", headings[:shown], [row[:shown] for row in rows]) if rows else ""


def _render_environment(facts: RunFacts) -> str:
    rows = [(escape(name), f"<code>{escape(text, 2000)}</code>") for name, text in facts.environment]
    rows += [(escape(name), _show_place(place)) for name, place in facts.links.items()]
    rows += [
        (f"output {escape(name, 80)}", _show_place(place))
        for name, place in list(facts.outputs.items())[:100]
    ]
    parameters = [
        (f"{escape(name, 80)}.{escape(key, 80)}", escape(value, 200))
        for name, step in list(facts.steps.items())[:50]
        for key, value in step.record.parameters.items()
        if name.rpartition(".")[0] not in facts.steps
    ][:2000]
    text = pairs(rows)
    if parameters:
        shown = table("Parameters", ("parameter", "value"), parameters)
        text += f"<details><summary>{plural(len(parameters), 'parameter')}</summary>{shown}</details>"
    return text


def _show_place(place: str) -> str:
    return f"<code>{escape(show_place(place), 1000)}</code>"


MAX_STEPS = 40  # a larger graph is a table only
LONGEST_NAME = 22


def _render_graph(facts: RunFacts) -> str:
    """The graph as an SVG; empty for one step, or for more than can be read."""
    steps = {name: step for name, step in facts.steps.items() if name.rpartition(".")[0] not in facts.steps}
    if not 1 < len(steps) <= MAX_STEPS:
        return ""
    layout = place_steps({name: step.record.needs for name, step in steps.items()})
    parts = [f'<path d="{path}"/>' for path in layout.paths]
    parts += [f'<path class="tip" d="{path}"/>' for path in layout.tips]
    for name, (x, y) in layout.positions.items():
        step = steps[name].record
        took = f" · {format_duration(step.seconds)}" if step.seconds else ""
        text = f"{escape(describe_state(step.state), 20)}{took}"
        middle = x + WIDTH // 2
        parts.append(
            f'<g><title>{escape(name)}: {text}</title><rect class="{escape(step.state, 20)}" x="{x}" y="{y}"'
            f' width="{WIDTH}" height="{HEIGHT}" rx="9"/>'
            f'<text x="{middle}" y="{y + 25}" text-anchor="middle">{escape(name, LONGEST_NAME)}</text>'
            f'<text class="sub" x="{middle}" y="{y + 44}" text-anchor="middle">{text}</text></g>'
        )
    title = f"Graph of {len(steps)} steps; the table below has the same"
    return (
        f'<div class="graph"><svg role="img" aria-label="{title}" width="{layout.width}"'
        f' height="{layout.height}" viewBox="0 0 {layout.width} {layout.height}">'
        f"<title>{title}</title>{''.join(parts)}</svg></div>\n"
    )


def write_page(page: str, path: Path, *, follow: bool = True) -> None:
    """Write a page beside its place, then rename it; only its user may read it.

    Args:
        page: The page.
        path: The file.
        follow: Whether a link is followed, as is right for a file that the user has named.

    Raises:
        OSError: The file cannot be written. Nothing of it is left.
    """
    write_whole(path, page.encode("utf-8", errors="backslashreplace"), mode=0o600, follow=follow)


def write_report(root: Path) -> Path:
    """Write the report of a run of this machine into its folder; return the file.

    Raises:
        OSError: It cannot be written.
    """
    write_page(render_page(read_run(root)), root / FILE, follow=False)
    return root / FILE
