"""Expressions and optional sections: what is found, where it stands, what is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml import binding, literals

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)


@given(
    st.lists(NAMES, min_size=1, max_size=5), st.text(" \t", max_size=3), st.text("ab $[]{}-\n", max_size=8)
)
def test_an_expression_is_found_with_its_offsets(parts: list[str], blanks: str, around: str) -> None:
    text = f"{around}|${{{{{blanks}{'.'.join(parts)}{blanks}}}}}|{around}"
    found = [part for part in binding.find_expressions(text) if part.name == ".".join(parts)]
    assert len(found) == 1
    expression = found[0]
    assert expression.parts == tuple(parts)
    for index, part in enumerate(parts):
        start, end = expression.part_range(index)
        assert text[start:end] == part
    assert text[expression.start :].startswith("${{")
    assert text[: expression.end].endswith("}}")


def test_blanks_inside_the_dotted_name_make_it_no_expression() -> None:
    assert binding.find_expressions("${{parent. inputs.x}}") == ()
    assert binding.parse_expression(" ${{inputs.x}}") is None
    assert binding.parse_expression("${{inputs.x}}/best") is None


@pytest.mark.parametrize(
    ("text", "scope", "step", "side", "port"),
    [
        ("${{inputs.x}}", "inputs", None, "inputs", "x"),
        ("${{outputs.model}}", "outputs", None, "outputs", "model"),
        ("${{inputs.group.member}}", "inputs", None, "inputs", "group.member"),
        ("${{parent.inputs.x}}", "parent.inputs", None, "inputs", "x"),
        ("${{parent.outputs.x}}", "parent.outputs", None, "outputs", "x"),
        ("${{parent.jobs.a.outputs.y}}", "parent.jobs", "a", "outputs", "y"),
        ("${{parent.jobs.a.inputs.y}}", "parent.jobs", "a", "inputs", "y"),
        ("${{plan.learning_rate}}", "plan", None, None, "learning_rate"),
        ("${{name}}", "name", None, None, None),
        ("${{parent}}", "parent", None, None, None),
        ("${{parent.jobs.a}}", "parent.jobs", "a", None, None),
        ("${{}}", "", None, None, None),
    ],
)
def test_what_an_expression_reaches_into(
    text: str, scope: str, step: str | None, side: str | None, port: str | None
) -> None:
    expression = binding.parse_expression(text)
    assert expression is not None
    assert (expression.scope, expression.step, expression.side, expression.port) == (scope, step, side, port)
    assert str(expression) == text


def test_brackets_are_matched_not_counted() -> None:
    text = "if [[ -d x ]]; then python a.py $[[--lr ${{inputs.lr}}]] $[[--b ${{inputs.b}}]]; fi ]]"
    template = binding.parse_template(text)
    assert [text[section.start : section.end] for section in template.sections] == [
        "$[[--lr ${{inputs.lr}}]]",
        "$[[--b ${{inputs.b}}]]",
    ]
    assert [[part.port for part in section.expressions] for section in template.sections] == [["lr"], ["b"]]
    assert template.unclosed == ()


def test_a_megabyte_of_openings_is_searched_in_linear_time() -> None:
    text = "${{" * 350_000
    assert binding.find_expressions(text) == ()
    assert len(binding.parse_template(text).unclosed) == 350_000


def test_what_never_closes_is_named_by_its_offset() -> None:
    text = "python a.py ${{inputs.a $[[ --b ${{inputs.b}}"
    assert [text[start : start + 3] for start in binding.parse_template(text).unclosed] == ["${{", "$[["]


def test_a_command_is_filled_in_as_azure_does() -> None:
    text = "python t.py --lr ${{inputs.lr}} $[[--tag '${{inputs.tag}}']] --out ${{ outputs.model }}"
    filled = binding.fill_command(text, {"lr": literals.render_literal(1e-05), "tag": None}, {"model": "/m"})
    assert filled == "python t.py --lr 1e-05  --out /m"
    with_tag = binding.fill_command(text, {"lr": "0.1", "tag": "a b"}, {"model": "/m"})
    assert with_tag == "python t.py --lr 0.1 --tag 'a b' --out /m"


def test_a_value_that_looks_like_an_expression_is_not_filled_in_again() -> None:
    filled = binding.fill_command("echo ${{inputs.a}} ${{inputs.b}}", {"a": "${{inputs.b}}", "b": "x"}, {})
    assert filled == "echo ${{inputs.b}} x"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "True"),
        (False, "False"),
        (1.0, "1.0"),
        (0.00001, "1e-05"),
        (1e16, "1e+16"),
        ("007", "007"),
        (8, "8"),
    ],
)
def test_literals_are_rendered_by_python(value: object, text: str) -> None:
    assert literals.render_literal(value) == text


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("number", [1, 0.5, "0.5", "1e-3"], [True, "fast", float("nan"), None, [1]]),
        ("integer", [1, -3, "7"], [2.5, 2.0, True, "2.5", "x", None]),
        ("boolean", [True, False, "TRUE", "false"], ["yes", 1, 0, None]),
        ("string", ["", "x", 1, True, 0.5], [{}, []]),
    ],
)
def test_which_literals_a_type_takes(type_: str, good: list[object], bad: list[object]) -> None:
    assert [value for value in good if not literals.accepts_literal(type_, value)] == []
    assert [value for value in bad if literals.accepts_literal(type_, value)] == []
