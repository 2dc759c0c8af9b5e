"""The rule pages as a reader sees them: rendered by a Markdown library, not compared as text."""

from __future__ import annotations

import re
import textwrap
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from worldsize.rules import pages, registry

RULES = registry.rules()
# CommonMark as GitHub reads it, raw HTML included: a page that holds some by accident must show here.
COMMONMARK = MarkdownIt("commonmark")
# Sentences may begin with a name that is written in lower case.
LOWER_CASE_NAMES = re.compile(r"(azure-ai-ml|pip|[\w-]+/[\w-]+)\b")


@cache
def every_token(page: str) -> list[Token]:
    return [token for parent in COMMONMARK.parse(page) for token in (parent, *(parent.children or ()))]


def test_pages_have_one_heading_and_two_examples() -> None:
    for rule in RULES:
        tokens = every_token(pages.read(rule))
        # The fault of a script is shown in the script, or in what starts it.
        languages = ("python", "yaml") if rule.family == "script" else ("yaml",)
        shown = [token.info for token in tokens if token.type == "fence"]
        assert shown in [[language, language] for language in languages], rule.slug
        assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1"], rule.slug


def test_explain_prints_the_examples_as_they_are_and_no_marks() -> None:
    for rule in RULES:
        shown = pages.render_plain(rule)
        assert shown.startswith(f"{rule.code} {rule.slug} ({rule.severity}, since {rule.since})\n====="), (
            rule.slug
        )
        for token in every_token(pages.read(rule)):
            if token.type == "fence":
                assert textwrap.indent(token.content, "    ") in shown, rule.slug
        assert not [line for line in shown.splitlines() if line.startswith(("```", "**", "# "))], rule.slug


def test_nothing_of_the_prose_is_read_as_other_markup() -> None:
    for rule in RULES:
        tokens = every_token(pages.read(rule))
        assert not {token.type for token in tokens} & {
            "html_block",
            "html_inline",
            "em_open",
            "code_block",
        }, rule.slug
        assert not [token.content for token in tokens if token.type == "text" and "`" in token.content], (
            rule.slug
        )


def test_every_part_is_a_sentence() -> None:
    for rule in RULES:
        parts = dict(re.findall(r"^\*\*(Why|Fix|Source)\.\*\* (.+)$", pages.read(rule), re.MULTILINE))
        assert {"Why", "Fix", "Source"} <= parts.keys(), rule.slug
        lower = {name: text for name, text in parts.items() if text[0].islower()}
        assert not {name: text for name, text in lower.items() if not LOWER_CASE_NAMES.match(text)}, rule.slug
