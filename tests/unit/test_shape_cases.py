from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from worldsize.azureml.shape import check_shape
from worldsize.documents.yaml import load

CASES = runpy.run_path(str(Path(__file__).with_name("shape_cases.py")))["read"]()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_fault_is_said_once_where_it_stands(case: Any) -> None:
    document = load("case.yml", case.text)
    assert document.root is not None, document.problems
    problems = check_shape(document.root, case.kind)
    said = [(problem.slug, *case.place(problem.span.line, problem.span.column)) for problem in problems]
    assert said == list(case.expected), [f"{problem.message} | {problem.help}" for problem in problems]


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=lambda case: case.name)
def test_messages_follow_the_house_rules(case: Any) -> None:
    root = load("case.yml", case.text).root
    assert root is not None
    for problem in check_shape(root, case.kind):
        assert not problem.message[0].isupper()
        assert not problem.message.endswith(".")
        assert len(problem.message) <= 200
        assert "`" in problem.message
        assert problem.help, problem.message


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=lambda case: case.name)
def test_a_fix_leaves_at_most_the_other_faults(case: Any) -> None:
    root = load("case.yml", case.text).root
    assert root is not None
    before = check_shape(root, case.kind)
    for problem in before:
        if problem.fix is None:
            continue
        lines = case.text.splitlines(keepends=True)
        span = problem.fix.span
        assert span.line == span.end_line
        line = lines[span.line - 1]
        lines[span.line - 1] = line[: span.column - 1] + problem.fix.replacement + line[span.end_column - 1 :]
        mended = load("case.yml", "".join(lines)).root
        assert mended is not None
        after = [(other.slug, other.span.line) for other in check_shape(mended, case.kind)]
        assert (problem.slug, span.line) not in after or len(after) < len(before), problem.message


def test_the_table_is_large_and_its_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) >= 150
    assert len(set(names)) == len(names)
