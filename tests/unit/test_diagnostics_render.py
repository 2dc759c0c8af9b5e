from __future__ import annotations

import io
import json
import os
import xml.etree.ElementTree as ET
from collections import Counter
from typing import NamedTuple

import msgspec
import pytest

from worldsize.base.problem import Related
from worldsize.checking import Report
from worldsize.documents.diagnostics import ci_formats, text
from worldsize.documents.diagnostics.diagnostic import Diagnostic, Severity, sort_unique
from worldsize.documents.diagnostics.text import wants_colour
from worldsize.documents.yaml import Mapping, Source, Span, load

DOCS = "https://example.com/rules/too_many.md"


class RuleInfo(NamedTuple):
    slug: str
    summary: str
    severity: str
    docs: str
    confidence: str = "certain"


RULES = {
    "WS201": RuleInfo("too-many", "too many processes", "error", DOCS),
    "WS301": RuleInfo("odd", "odd", "warning", DOCS),
}


def diagnostic(
    span: Span,
    message: str = "`a` is 3 but 2 fit",
    code: str = "WS201",
    severity: Severity = "error",
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    return Diagnostic(code, RULES[code].slug, severity, message, span, "write `2`", related, docs=DOCS)


def underline(source: str, start: int, end: int) -> list[str]:
    place = Source("job.yml", source)
    shown = text.render_diagnostic(diagnostic(place.span(start, end)), {"job.yml": place})
    return shown.splitlines()[1:4]


def test_a_caret_lies_exactly_under_the_node() -> None:
    assert underline("a: 3\n", 3, 4) == ["  |", "1 | a: 3", "  |    ^"]


def test_tabs_become_columns() -> None:
    assert underline('a: "\tb"', 5, 6) == ["  |", '1 | a: "    b"', "  |         ^"]


def test_wide_characters_take_two_columns() -> None:
    assert underline("漢字: 値 # x", 4, 5) == ["  |", "1 | 漢字: 値 # x", "  |       ^^"]
    assert underline("e\u0301: x", 4, 5)[2] == "  |    ^"


def test_a_span_over_lines_is_underlined_to_the_end_of_the_first() -> None:
    assert underline("a: |\n  b\n", 3, 8) == ["  |", "1 | a: |", "  |    ^"]


def test_an_empty_span_has_one_caret() -> None:
    assert underline("a:", 2, 2)[2] == "  |   ^"


def test_a_long_line_is_cut_around_the_caret() -> None:
    source = "k: " + "x" * 5000 + "HERE" + "y" * 5000
    _, line, marks = underline(source, 5003, 5007)
    assert len(line) < 140
    start = marks.index("^")
    assert line[start : start + 4] == "HERE"
    assert marks.count("^") == 4


def test_control_characters_do_not_reach_the_terminal() -> None:
    place = Source("job.yml", "a: \x1b[31mred\u202e")
    shown = text.render_diagnostic(diagnostic(place.span(3, 4), "`\x1b[2J` is odd"), {"job.yml": place})
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_related_places_in_this_and_other_files() -> None:
    here, there = Source("job.yml", "a: 3\nb: 2\n"), Source("other.yml", "c: 1\n")
    related = (Related(here.span(8, 9), "two fit"), Related(there.span(3, 4), "because of this"))
    shown = text.render_diagnostic(
        diagnostic(here.span(3, 4), related=related), {"job.yml": here, "other.yml": there}
    )
    assert shown.splitlines() == [
        "job.yml:1:4: error[WS201] `a` is 3 but 2 fit",
        "  |",
        "1 | a: 3",
        "  |    ^",
        "  |",
        "2 | b: 2",
        "  |    - two fit",
        "  :: other.yml:1:4",
        "  |",
        "1 | c: 1",
        "  |    - because of this",
        "  = help: write `2`",
        f"  = docs: {DOCS}",
    ]


def test_colour_only_when_asked_for() -> None:
    place = Source("job.yml", "a: 3\n")
    found = [diagnostic(place.span(3, 4))]
    assert "\x1b[" in text.render_text(found, {"job.yml": place}, colour=True)
    assert "\x1b[" not in text.render_text(found, {"job.yml": place})


def test_the_tally_counts_in_words() -> None:
    at = Span("a.yml", 1, 1, 1, 2)
    found = [
        diagnostic(at),
        diagnostic(at, code="WS301", severity="warning"),
        diagnostic(at, severity="info"),
    ]
    assert text.summarise_counts(found, 2) == "1 error, 1 warning, 1 note in 2 files"
    assert text.summarise_counts([], 1) == "nothing found in 1 file"


def test_arranged_by_place_and_each_once() -> None:
    one, two = Span("a.yml", 2, 1, 2, 2), Span("a.yml", 1, 9, 1, 10)
    found = sort_unique([diagnostic(one), diagnostic(two), diagnostic(one), diagnostic(one, "another")])
    assert [(d.span.line, d.message) for d in found] == [
        (1, "`a` is 3 but 2 fit"),
        (2, "`a` is 3 but 2 fit"),
        (2, "another"),
    ]


def test_json_has_the_keys_of_version_one() -> None:
    at = Span("sub/a.yml", 1, 4, 1, 5)
    found = [diagnostic(at, related=(Related(at, "here"),))]
    totals: dict[Severity, int] = {"error": 1, "warning": 0, "info": 2}
    shown = json.loads(ci_formats.render_json(found, totals=totals, files=3))
    assert shown == {
        "version": 1,
        "diagnostics": [
            {
                "code": "WS201",
                "slug": "too-many",
                "severity": "error",
                "confidence": "certain",
                "fix": "none",
                "message": "`a` is 3 but 2 fit",
                "path": "sub/a.yml",
                "line": 1,
                "column": 4,
                "end_line": 1,
                "end_column": 5,
                "help": "write `2`",
                "docs": DOCS,
                "related": [{"path": "sub/a.yml", "line": 1, "column": 4, "message": "here"}],
            }
        ],
        "summary": {"files": 3, "errors": 1, "warnings": 0, "infos": 2, "fixed": 0},
    }


def test_sarif_has_what_the_schema_requires() -> None:
    at = Span("a folder/ä.yml", 1, 4, 1, 5)
    found = [diagnostic(at, code="WS301", severity="warning"), diagnostic(at, related=(Related(at, "here"),))]
    log = json.loads(ci_formats.render_sarif(found, RULES, version="0.1.0"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["WS201", "WS301"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert physical["artifactLocation"]["uri"] == "a%20folder/%C3%A4.yml"
        assert physical["region"] == {"startLine": 1, "startColumn": 4, "endLine": 1, "endColumn": 5}
    assert run["results"][1]["relatedLocations"][0]["message"]["text"] == "here"
    assert run["invocations"] == [{"executionSuccessful": True}]


def test_github_escapes_what_would_end_the_command() -> None:
    at = Span("a,b.yml", 1, 4, 1, 7)
    line = ci_formats.render_github([diagnostic(at, "100% of `a:b`\nsecond")])
    assert line.startswith("::error file=a%2Cb.yml,line=1,endLine=1,col=4,endColumn=6,title=WS201 too-many::")
    assert "100%25 of `a:b`%0Asecond%0Ahelp: write `2`" in line
    assert line.count("\n") == 1


def test_github_gives_no_columns_over_several_lines() -> None:
    assert "col=" not in ci_formats.render_github([diagnostic(Span("a.yml", 1, 4, 2, 1))])


def test_junit_is_xml_with_a_case_a_file() -> None:
    at = Span("a.yml", 1, 1, 1, 2)
    document = ci_formats.render_junit([diagnostic(at, '`<a>` & "b" \x01')], {}, files=["a.yml", "b.yml"])
    suite = ET.fromstring(document).find("testsuite")
    assert suite is not None
    assert suite.attrib["tests"] == "2"
    assert suite.attrib["failures"] == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.attrib["message"].startswith('`<a>` & "b"')


@pytest.mark.parametrize("format_", ["text", "json", "sarif", "github", "junit"])
def test_every_format_is_reachable_and_repeatable(format_: str) -> None:
    document = load("a.yml", "a: 3\n")
    assert isinstance(document.root, Mapping)
    found = [diagnostic(document.root.span)]
    report = Report(tuple(found), {"a.yml": document.source}, ("a.yml",))
    once, again = (report.render(format_) for _ in range(2))
    assert once == again
    assert once.endswith("\n")
    assert "`a` is 3 but 2 fit" in once


@pytest.mark.parametrize(
    ("variables", "is_tty", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
    ],
)
def test_colour_is_for_terminals_unless_asked_for(
    variables: dict[str, str], is_tty: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_tty)
    assert wants_colour(stream) == wanted


def test_a_name_that_is_not_utf_8_breaks_no_document() -> None:
    name = os.fsdecode(b"a\xff.yml")
    at = Span(name, 1, 4, 1, 5)
    found = [diagnostic(at, f"`{name}` is wrong", related=(Related(at, name),))]
    totals: Counter[Severity] = Counter({"error": 1})
    sarif = ci_formats.render_sarif(found, RULES, version="0.1.0")
    plain = ci_formats.render_json(found, totals=totals, files=1)
    for document in (sarif, plain):
        msgspec.json.decode(document.encode())  # strict: no half characters
    place = json.loads(sarif)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%FF.yml"
    for lines in (ci_formats.render_github(found), ci_formats.render_junit(found, {}, files=[name])):
        lines.encode()
