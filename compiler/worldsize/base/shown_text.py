"""Text that others wrote, made safe to show in terminals, JSON and pages; and tables in HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from worldsize.base.patterns import compile_later

_CONTROL = compile_later(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

_CELL = "text-align:left;vertical-align:top"
_QUOTED = re.compile(r"`([^`]+)`")
LONGEST = 300  # characters of one text


def escape(text: object, longest: int = LONGEST) -> str:
    """A text that others may have written as text of a page: cut to a length, no markup or controls."""
    plain = mark_controls(str(text))
    return html.escape(plain if len(plain) <= longest else plain[: longest - 1] + "…")


def mark_code(text: str) -> str:
    """Escaped text with what is between backticks as code."""
    return _QUOTED.sub(r"<code>\1</code>", text)


def render_html_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], note: str = ""
) -> str:
    """A table with a title above and a note below; every text is escaped."""
    head = "".join(f'<th scope="col" style="text-align:left">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{mark_code(escape(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    caption = f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def mark_controls(text: str) -> str:
    """Replace the control characters in lines from untrusted sources, so that a terminal can show them."""
    return text if text.isascii() and text.isprintable() else _CONTROL.sub("\ufffd", text)


def escape_controls(document: str) -> str:
    """Write control characters of a JSON document as JSON escapes, so that a terminal can show it.

    Half a character, which is how a byte of a file's name comes that is not UTF-8, becomes a mark: strict
    readers refuse a document with its escape.
    """
    return _CONTROL.sub(
        lambda match: "\\ufffd" if match[0] >= "\ud800" else f"\\u{ord(match[0]):04x}", document
    )
