"""Writes HTML. Whatever comes from a run goes through ``escape``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worldsize.base.shown_text import escape
from worldsize.running.show.views import describe_state

TALL_ROWS = 25  # beyond, a table scrolls by itself


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: frozenset[int] = frozenset(),
    *,
    aligned: str = "number",
) -> str:
    """A table of cells that are escaped already; the first cell of a row is its heading.

    Args:
        caption: For screen readers.
        headings: Of the columns.
        rows: The cells.
        numbers: The columns that are aligned to the right.
        aligned: Their class: ``number`` for cells that do not wrap, else ``right``.
    """
    rows = list(rows)
    head = "".join(
        f'<th scope="col"{_class(index, numbers, aligned)}>{heading}</th>'
        for index, heading in enumerate(headings)
    )
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(
            f"<td{_class(index, numbers, aligned)}>{cell}</td>" for index, cell in enumerate(row) if index
        )
        + "</tr>\n"
        for row in rows
    )
    # The region scrolls by itself, so that a wide table does not widen the page.
    return (
        f'<div class="scroll{" tall" * (len(rows) > TALL_ROWS)}" role="region" tabindex="0"'
        f' aria-label="{caption}, table"><table>'
        f'<caption class="heard">{caption}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
    )


def _class(index: int, numbers: frozenset[int], aligned: str) -> str:
    return f' class="{aligned}"' if index in numbers else ""


def section(title: str, content: str, *, anchor: str) -> str:
    """A part of the page with a heading; nothing if it is empty."""
    if not content:
        return ""
    heading = f'<h2 id="{anchor}-title">{title}</h2>'
    return f'<section id="{anchor}" aria-labelledby="{anchor}-title">{heading}\n{content}</section>\n'


def badge(state: str) -> str:
    """The state of a run or a step, by word and colour."""
    tone = state if state in TONES else "other"
    return f'<span class="state {tone}">{escape(describe_state(state))}</span>'


TONES = frozenset({"succeeded", "reused", "failed", "stopped", "interrupted", "died", "running", "waiting"})


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """A list of names and values that are escaped already."""
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>\n" for name, value in rows)
    return f"<dl>{items}</dl>\n" if items else ""


def cards(rows: Iterable[tuple[str, str]]) -> str:
    """The headline: names and values that are escaped already."""
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows)
    return f'<dl class="cards">{cells}</dl>\n'
