"""Tables in HTML, as notebooks and pages show them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from worldsize.documents.diagnostics.snippet import mark_controls

_CELL = "text-align:left;vertical-align:top"
_QUOTED = re.compile(r"`([^`]+)`")
LONGEST = 300  # characters of one text


def escape(text: object, longest: int = LONGEST) -> str:
    """A text that others may have written as text of a page: cut to a length, no markup or controls."""
    plain = mark_controls(str(text))
    return html.escape(plain if len(plain) <= longest else plain[: longest - 1] + "…")


def _mark_code(text: str) -> str:
    """Names between backticks as code."""
    return _QUOTED.sub(r"<code>\1</code>", text)


def render_html_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], note: str = ""
) -> str:
    """A table with a title above and a note below; every text is escaped."""
    head = "".join(f'<th scope="col" style="text-align:left">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{_mark_code(escape(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    caption = f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
