"""Each text that a help says to write is written: its finding is gone then, and no new one comes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import case_pages
import help_texts
import pytest
from help_texts import Alternative

import worldsize
from worldsize.checking import Report
from worldsize.checking.checker import check_files
from worldsize.documents.diagnostics.diagnostic import Diagnostic

HERE = Path(__file__).parent
PAGES = [
    page
    for page in case_pages.read_all(HERE, "WS*.md")
    if not any(file.path == "limits.json" for file in page.common)
]
# What a help of these rules says to write is more than a program can place.
APART = {
    "WS320": "what fits is listed, settings of several mappings in each",
    "WS321": "what fits is listed, settings of several mappings in each",
    "WS348": "the key of a configuration moves to another mapping",
    "WS534": "a label of whole numbers that all differ is only offered as classes by the step's own message",
    "WS645": "a block of several lines is written in another style",
}
_MORE = re.compile(r"\(and \d+ more\)")


def list_findings(page: case_pages.Page) -> Iterator[tuple[str, Report, Diagnostic]]:
    """The findings of a page's own rule, each sort of help once, with the case that has it."""
    helps = set()
    for case in page.cases:
        if case.name.startswith(("bad", "pair")):
            report = worldsize.check(case.name)
            for diagnostic in report.diagnostics:
                help_ = re.sub(r"\d+", "0", diagnostic.help or "")
                if diagnostic.code == page.path.stem.partition("-")[0] and help_ not in helps:
                    helps.add(help_)
                    yield case.name, report, diagnostic


def write_and_check(name: str, before: Report, diagnostic: Diagnostic, alternative: Alternative) -> str:
    """What is wrong after the alternative was written where it can stand; empty if nothing is."""
    codes, faults = count_codes(before, diagnostic), []
    spans = [diagnostic.span, *(related.span for related in diagnostic.related)]
    for path, text in help_texts.write_each(Path(), spans, alternative):
        if alternative.file:  # no file that is checked, and so read from the disk
            old = path.read_bytes() if path.exists() else None
            path.write_text(text)
            report = worldsize.check(name)
            path.unlink() if old is None else path.write_bytes(old)
        else:
            report = check_files([name], texts={str(path): text.encode()})[0]
        after = count_codes(report, diagnostic)
        if after[diagnostic.code] < codes[diagnostic.code] and not after - codes:
            return ""
        faults.append(f"new: {dict(after - codes)}" if after - codes else "still there")
    return f"`{' and '.join(alternative.texts)}`: {min(faults, default='no place')}"


def count_codes(report: Report, diagnostic: Diagnostic) -> Counter[str]:
    """The errors and warnings, and the notes of the finding's own rule."""
    return Counter(
        other.code
        for other in report.diagnostics
        if other.severity != "info" or other.code == diagnostic.code
    )


def list_faults(name: str, report: Report, diagnostic: Diagnostic) -> Iterator[str]:
    """The texts that do not silence the finding, or of choices none does."""
    alternatives = help_texts.read_alternatives(diagnostic.help or "")
    faults = [
        (alternative.one_of, write_and_check(name, report, diagnostic, alternative))
        for alternative in alternatives
        if alternative.is_complete
    ]
    choices = [fault for one_of, fault in faults if one_of]
    yield from (fault for one_of, fault in faults if fault and (not one_of or all(choices)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_what_a_help_says_to_write_silences_its_finding_without_a_new_one(
    page: case_pages.Page, written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(page.path))
    for name, report, diagnostic in list_findings(page):
        faults = list(list_faults(name, report, diagnostic))
        if not _MORE.search(diagnostic.message):  # the first of several: the next one is reported then
            assert bool(faults) <= (diagnostic.code in APART), (diagnostic.message, diagnostic.help, faults)
