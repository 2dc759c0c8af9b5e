"""The rows of the tables, the checks, the pages, the tests and the frozen codes are the same set."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import case_pages

from worldsize.rules import pages, registry

HERE = Path(__file__).parent
RULES = registry.rules()
FOLDER = pages.FOLDER
PACKAGE = FOLDER.parent
EXAMPLE = re.MULTILINE | re.DOTALL
CASES = {page.path.stem: page.cases for page in case_pages.read_all(HERE, "WS*.md")}

# A crash of worldsize itself (tests/unit/test_check.py makes one), a file outside the tree
# (test_check_settings.py), and what only `run` and `compile` meet.
WITHOUT_FILES = {
    *("WS000", "WS013", "WS020", "WS021", "WS034", "WS605", "WS660", "WS661", "WS662"),
    *("WS116", "WS816", "WS817", "WS836", "WS838", "WS839"),
}

# Crashes, unreadable files, limits that a small file cannot reach, other encodings, files beside the YAML.
WITHOUT_EXAMPLE_FILE = {
    *WITHOUT_FILES,
    *("WS003", "WS004", "WS006", "WS007", "WS016", "WS835", "WS837", "WS840"),
}

# Frozen: a code is never given to another fault, and leaves only with a line in the CHANGELOG.
CODES = HERE / "codes.txt"


def test_codes_and_slugs_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.slug for rule in RULES}) == len(RULES)


def test_codes_are_frozen(update_golden: bool) -> None:
    listed = "".join(f"{rule.code} {rule.slug}\n" for rule in RULES)
    if update_golden:
        CODES.write_text(listed)
    assert listed == CODES.read_text()


def test_pages_on_disk_are_those_of_the_rules() -> None:
    on_disk = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.md")}
    assert on_disk == {rule.page for rule in RULES}


def test_modules_on_disk_are_those_of_the_rules_with_checks_of_their_own() -> None:
    on_disk = {
        f"worldsize.rules.{path.parent.name}.{path.stem}"
        for family in registry.FAMILIES
        for path in (FOLDER / family).glob("[!_]*.py")
    }
    assert on_disk == {rule.module for rule in RULES if rule.on and not rule.checked_in}


def test_modules_have_the_checks_that_their_rows_name_and_no_others() -> None:
    for module in sorted({rule.module for rule in RULES if rule.on}):
        functions = {name for name in vars(importlib.import_module(module)) if name.startswith("check_")}
        rows = [rule for rule in RULES if rule.module == module and rule.on]
        unnamed = {rule.on for rule in rows if f"check_{rule.stem}" not in functions}
        assert len(unnamed) <= 1, f"{module}: rules that share a check have the same types"
        by_type = {registry.function_name(name) for types in unnamed for name in types}
        assert functions == by_type | ({f"check_{rule.stem}" for rule in rows} & functions), module


def test_every_rule_has_a_test_page_with_bad_and_good() -> None:
    assert CASES.keys() == {f"{rule.code}-{rule.slug}" for rule in RULES if rule.code not in WITHOUT_FILES}
    for page, cases in CASES.items():
        kinds = {re.sub(r"^(bad|good).*", r"\1", case.heading) for case in cases}
        assert {"bad", "good"} <= kinds <= {"bad", "good", "pair/"}, page


def test_rows_keep_the_house_style() -> None:
    for rule in RULES:
        family = "graph" if rule.family == "schedule" else rule.family
        assert rule.code.startswith(f"WS{registry.FAMILIES.index(family)}"), rule.slug
        assert rule.summary[0].islower() or rule.summary[0] in "`√", rule.slug
        assert not rule.summary.endswith("."), rule.slug
        assert rule.on or not (rule.when or rule.checked_in), f"{rule.slug}: only checks have those"


def test_pages_have_all_their_parts_in_order() -> None:
    for rule in RULES:
        page = pages.read(rule)
        assert re.match(r"# [^\n]*[^.\n]\n\n", page), rule.slug
        marks = ("**Why.** ", "**Bad**\n", "**Good**\n", "**Fix.** ", "**Source.** ")
        parts = [page.find(f"\n\n{mark}") for mark in marks]
        assert all(position > 0 for position in parts), (rule.slug, parts)
        assert parts == sorted(parts), rule.slug


def test_the_examples_of_pages_are_those_of_their_tests() -> None:
    for rule in RULES:
        if rule.code in WITHOUT_EXAMPLE_FILE:
            continue  # the fault is not in the text of a file
        for label in ("bad", "good"):
            cases = [case for case in CASES[f"{rule.code}-{rule.slug}"] if case.name.startswith(label)]
            texts = [file.text for case in cases for file in case.files]
            block = re.search(
                rf"^\*\*{label.capitalize()}\*\*\n\n(`+)\w+\n(.*?)\1$", pages.read(rule), EXAMPLE
            )
            assert block is not None, rule.slug
            lines = [line.strip() for line in block[2].splitlines() if line.strip()]
            assert any(all(line in text for line in lines) for text in texts), (rule.slug, label, lines)


def test_the_list_of_pages_is_complete(update_golden: bool) -> None:
    if update_golden:
        pages.write(FOLDER)
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == pages.render_index()


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
    assert reported_slugs() - {rule.slug for rule in RULES} == set()


def test_messages_keep_the_house_style() -> None:
    outputs = [case.expected for cases in CASES.values() for case in cases if case.expected is not None]
    assert outputs
    for output in outputs:
        for line in output.splitlines():
            head = re.match(r"\S+:\d+:\d+: (?:error|warning|info)\[WS\d{3}\] (.*)", line)
            if head is not None:
                message = head[1]
                assert not message[0].isupper(), message
                assert not message.endswith("."), message
                assert len(message) <= 200, message
            help_ = re.match(r"\s*= help: (.*)", line)
            if help_ is not None:
                assert not help_[1].endswith("."), line
