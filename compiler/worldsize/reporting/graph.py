"""The graph of a run as a picture, with the states and times of its steps."""

from __future__ import annotations

from worldsize.base.wording import format_duration
from worldsize.documents.diagnostics.html_table import escape
from worldsize.reporting.markup import WORDS
from worldsize.reporting.model import RunFacts
from worldsize.showing.graph_layout import HEIGHT, WIDTH, place_steps

MAX_STEPS = 40  # a larger graph is a table only
LONGEST_NAME = 22


def render_graph(facts: RunFacts) -> str:
    """The graph as an SVG; empty for one step, or for more than can be read."""
    steps = {name: step for name, step in facts.steps.items() if name.rpartition(".")[0] not in facts.steps}
    if not 1 < len(steps) <= MAX_STEPS:
        return ""
    layout = place_steps({name: step.record.needs for name, step in steps.items()})
    parts = [f'<path d="{path}"/>' for path in layout.paths]
    parts += [f'<path class="tip" d="{path}"/>' for path in layout.tips]
    for name, (x, y) in layout.positions.items():
        step = steps[name].record
        state = WORDS.get(step.state, step.state)
        took = f" · {format_duration(step.seconds)}" if step.seconds else ""
        text = f"{escape(state, 20)}{took}"
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
