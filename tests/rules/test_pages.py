"""The rule pages as a reader sees them: rendered by a Markdown library, not compared as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from worldsize.rules import pages, registry
from worldsize.rules.rule import Rule

RULES = registry.rules()
# CommonMark as GitHub reads it, raw HTML included: a page that holds some by accident must show here.
COMMONMARK = MarkdownIt("commonmark")
# Sentences may begin with a name that is written in lower case.
LOWER_CASE_NAMES = re.compile(r"(azure-ai-ml|pip|[\w-]+/[\w-]+)\b")


def every_token(page: str) -> Iterator[Token]:
    for token in COMMONMARK.parse(page):
        yield token
        yield from token.children or ()


def slug(rule: Rule) -> str:
    return rule.slug


@pytest.mark.parametrize("rule", RULES, ids=slug)
def test_a_page_has_one_heading_and_two_examples(rule: Rule) -> None:
    tokens = list(every_token(pages.read(rule)))
    language = "python" if rule.family == "script" else "yaml"
    assert [token.info for token in tokens if token.type == "fence"] == [language, language]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1"]


@pytest.mark.parametrize("rule", RULES, ids=slug)
def test_explain_prints_the_examples_as_they_are_and_no_marks(rule: Rule) -> None:
    shown = pages.render_plain(rule)
    assert shown.startswith(f"{rule.code} {rule.slug} ({rule.severity}, since {rule.since})\n=====")
    for token in every_token(pages.read(rule)):
        if token.type == "fence":
            assert textwrap.indent(token.content, "    ") in shown
    assert not [line for line in shown.splitlines() if line.startswith(("```", "**", "# "))]


@pytest.mark.parametrize("rule", RULES, ids=slug)
def test_nothing_of_the_prose_is_read_as_other_markup(rule: Rule) -> None:
    tokens = list(every_token(pages.read(rule)))
    assert not {token.type for token in tokens} & {"html_block", "html_inline", "em_open", "code_block"}
    assert not [token.content for token in tokens if token.type == "text" and "`" in token.content]


@pytest.mark.parametrize("rule", RULES, ids=slug)
def test_every_part_is_a_sentence(rule: Rule) -> None:
    parts = dict(re.findall(r"^\*\*(Why|Fix|Source)\.\*\* (.+)$", pages.read(rule), re.MULTILINE))
    assert {"Why", "Fix", "Source"} <= parts.keys()
    lower = {name: text for name, text in parts.items() if text[0].islower()}
    assert not {name: text for name, text in lower.items() if not LOWER_CASE_NAMES.match(text)}
