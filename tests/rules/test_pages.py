"""The rule pages as a reader sees them: rendered by a Markdown library, not compared as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from worldsize.rules import pages, registry
from worldsize.rules.rule import Entry

ENTRIES = registry.entries()
# CommonMark as GitHub reads it, raw HTML included: a page that holds some by accident must show here.
COMMONMARK = MarkdownIt("commonmark")
EXAMPLE = re.compile(r"^(?:Bad|Good)::\n\n((?:    .*\n|\n)+)", re.MULTILINE)
# Sentences may begin with a name that is written in lower case.
LOWER_CASE_NAMES = re.compile(r"(azure-ai-ml|pip|[\w-]+/[\w-]+)\b")


def every_token(page: str) -> Iterator[Token]:
    for token in COMMONMARK.parse(page):
        yield token
        yield from token.children or ()


def slug(entry: Entry) -> str:
    return entry.slug


@pytest.mark.parametrize("entry", ENTRIES, ids=slug)
def test_both_examples_are_code_blocks_with_their_own_text(entry: Entry) -> None:
    wanted = [textwrap.dedent(code).rstrip() for code in EXAMPLE.findall(registry.page(entry) + "\n")]
    language = "python" if entry.code.startswith("WS9") else "yaml"
    blocks = [token for token in every_token(pages.markdown(entry)) if token.type == "fence"]
    assert len(wanted) == 2
    assert [(block.info, block.content.rstrip()) for block in blocks] == [(language, code) for code in wanted]


@pytest.mark.parametrize("entry", ENTRIES, ids=slug)
def test_nothing_of_the_prose_is_read_as_other_markup(entry: Entry) -> None:
    tokens = list(every_token(pages.markdown(entry)))
    assert not {token.type for token in tokens} & {"html_block", "html_inline", "em_open", "code_block"}
    assert not [token.content for token in tokens if token.type == "text" and "`" in token.content]


@pytest.mark.parametrize("entry", ENTRIES, ids=slug)
def test_every_part_is_a_sentence(entry: Entry) -> None:
    parts = dict(re.findall(r"^(Why|Fix|Source): (.+)$", registry.page(entry), re.MULTILINE))
    assert {"Why", "Fix", "Source"} <= parts.keys()
    lower = {name: text for name, text in parts.items() if text[0].islower()}
    assert not {name: text for name, text in lower.items() if not LOWER_CASE_NAMES.match(text)}


def test_a_fence_is_longer_than_the_backticks_inside_it() -> None:
    rendered = COMMONMARK.parse(pages._fence("    a ``` b\n    c", "yaml"))
    assert [(token.type, token.content) for token in rendered] == [("fence", "a ``` b\nc\n")]
