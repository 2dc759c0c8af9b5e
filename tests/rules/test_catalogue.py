"""The files of rules, their registration, their tests, their pages and their codes are the same set."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from worldsize.rules import pages, registry
from worldsize.rules.rule import Entry

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "compiler" / "worldsize"
PAGES = HERE.parents[1] / "compiler" / "docs" / "rules"
ENTRIES = registry.entries()
OUTPUTS = sorted(HERE.glob("WS*/*.out"))

# A crash of worldsize itself (tests/unit/test_check.py makes one), a file outside the tree
# (test_check_settings.py), and what only `run` and `compile` meet.
WITHOUT_FILES = {
    *("WS000", "WS013", "WS020", "WS021", "WS034", "WS605", "WS660", "WS661", "WS662"),
    *("WS116", "WS816", "WS817", "WS836", "WS838", "WS839"),
}

# Crashes, unreadable files, limits that a small file cannot reach, other encodings, and files beside the YAML.
WITHOUT_EXAMPLE_FILE = {*WITHOUT_FILES, "WS003", "WS004", "WS006", "WS007", "WS835", "WS837", "WS840"}

# Frozen: a code is never given to another fault, and leaves only with a line in the CHANGELOG.
CODES = HERE / "codes.txt"


def slug(entry: Entry) -> str:
    return entry.slug


def test_codes_and_slugs_are_unique() -> None:
    assert len({entry.code for entry in ENTRIES}) == len(ENTRIES)
    assert len({entry.slug for entry in ENTRIES}) == len(ENTRIES)


def test_codes_are_frozen(update_golden: bool) -> None:
    listed = "".join(f"{entry.code} {entry.slug}\n" for entry in ENTRIES)
    if update_golden:
        CODES.write_text(listed)
    assert listed == CODES.read_text()


def test_files_on_disk_are_the_registered_ones() -> None:
    on_disk = {
        f"worldsize.rules.{path.parent.name}.{path.stem}"
        for family in registry.FAMILIES
        for path in (PACKAGE / "rules" / family).glob("*.py")
        if not path.name.startswith("_")
    }
    assert on_disk == {registry.module_name(entry) for entry in ENTRIES}


def test_every_rule_has_a_test_folder_with_bad_and_good() -> None:
    folders = {path.name for path in HERE.glob("WS*")}
    assert folders == {f"{entry.code}-{entry.slug}" for entry in ENTRIES if entry.code not in WITHOUT_FILES}
    for folder in HERE.glob("WS*"):
        stems = {path.name.split(".")[0] for path in folder.iterdir()}
        assert any(stem.startswith("bad") for stem in stems), folder
        assert any(stem.startswith("good") for stem in stems), folder


@pytest.mark.parametrize("entry", ENTRIES, ids=slug)
def test_a_rule_declares_what_its_line_says(entry: Entry) -> None:
    rule = registry.load(entry)
    assert (rule.code, rule.slug) == (entry.code, entry.slug)
    assert sorted({kind.__name__ for kind, _ in rule.registered}) == sorted(entry.on)
    assert entry.code.startswith(f"WS{family_digit(entry)}")
    assert rule.summary[0].islower() or rule.summary[0] in "`√"
    assert not rule.summary.endswith(".")


def family_digit(entry: Entry) -> int:
    family = registry.module_name(entry).split(".")[2]
    return registry.FAMILIES.index("graph" if family == "schedule" else family)


@pytest.mark.parametrize("entry", ENTRIES, ids=slug)
def test_a_page_has_all_its_parts_in_order(entry: Entry) -> None:
    page = registry.page(entry)
    parts = [page.find(f"\n{part}") for part in ("Why: ", "Bad::", "Good::", "Fix: ", "Source: ")]
    assert all(position > 0 for position in parts), parts
    assert parts == sorted(parts)


@pytest.mark.parametrize("entry", ENTRIES, ids=slug)
def test_the_examples_of_a_page_are_those_of_its_tests(entry: Entry) -> None:
    folder = HERE / f"{entry.code}-{entry.slug}"
    if entry.code in WITHOUT_EXAMPLE_FILE:
        pytest.skip("the fault is not one of the text of a file")
    for label in ("bad", "good"):
        files = [
            path
            for path in folder.rglob("*")
            if path.relative_to(folder).parts[0].startswith(label) and path.suffix != ".out"
        ]
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()]
        block = re.search(
            rf"^{label.capitalize()}::\n\n((?:    .*\n|\n)+)", registry.page(entry), re.MULTILINE
        )
        assert block is not None
        lines = [line.strip() for line in block[1].splitlines() if line.strip()]
        assert any(all(line in text for line in lines) for text in texts), (label, lines)


@pytest.mark.parametrize("entry", ENTRIES, ids=slug)
def test_the_pages_are_the_generated_ones(entry: Entry, update_golden: bool) -> None:
    if update_golden:
        pages.write(PAGES)
    assert (PAGES / f"{entry.code}.md").read_text(encoding="utf-8") == pages.markdown(entry)


def test_the_list_of_pages_is_complete() -> None:
    assert (PAGES / "README.md").read_text(encoding="utf-8") == pages.index()
    assert {path.stem for path in PAGES.glob("WS*.md")} == {entry.code for entry in ENTRIES}


def reported_slugs() -> set[str]:
    """Every slug that a layer under the rules passes to ``Problem`` as text."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem" and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    found.add(first.value)
    return found


def test_every_reported_slug_has_a_rule() -> None:
    assert reported_slugs() - {entry.slug for entry in ENTRIES} == set()


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: path.parent.name)
def test_messages_keep_the_house_style(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        head = re.match(r"\S+:\d+:\d+: (?:error|warning|info)\[WS\d{3}\] (.*)", line)
        if head is not None:
            message = head[1]
            assert not message[0].isupper(), message
            assert not message.endswith("."), message
            assert len(message) <= 200, message
        help_ = re.match(r"\s*= help: (.*)", line)
        if help_ is not None:
            assert not help_[1].endswith("."), line
