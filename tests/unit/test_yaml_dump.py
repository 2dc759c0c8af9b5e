"""Written YAML reads back as what was written, for every reader; and looks as a person would write it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.azureml import yaml_dump
from worldsize.azureml.model import Field
from worldsize.documents import yaml

WORDS = "yes no on off null ~ 010 1e-3 1.5e3 1:30 2024-01-01 0x1F 0o17 = << - --- ... .inf 1_000 True y n"
TEXTS = st.one_of(
    st.text(),
    st.text(alphabet=" -:#ab\n'\"\\$[]{}&|>%@`,0123e.+_~=<!?*\t\x85\u2028\ufeff"),
    st.sampled_from(WORDS.split()),
    st.lists(
        st.sampled_from(
            ["--flag", "${{inputs.x}}", "$[[--a", "]]", "&&", "python train.py", "a: b", " ", "#"]
        ),
        max_size=40,
    ).map(" ".join),
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return bool(left == right or (math.isnan(left) and math.isnan(right)))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@settings(max_examples=100)
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_what_is_written_reads_back(document: dict[str, Any]) -> None:
    text = yaml_dump.dump(document)
    assert same(pyyaml.safe_load(text), document)
    root = yaml.load("written.yml", text).root
    assert root is not None
    assert same(yaml.to_python(root), document)


@given(st.dictionaries(st.sampled_from("abcdef"), LEAVES, min_size=1), st.text(min_size=1))
def test_comments_change_nothing(document: dict[str, Any], comment: str) -> None:
    printable = "".join(letter for letter in comment if letter.isprintable())
    commented = {key: Field(value, comment=printable) for key, value in document.items()}
    assert same(pyyaml.safe_load(yaml_dump.dump(commented)), document)


@pytest.mark.parametrize("word", WORDS.split())
def test_words_with_another_meaning_are_quoted(word: str) -> None:
    # A lone `y` is text to PyYAML, and to YAML 1.2 as well.
    assert (yaml_dump.dump({"k": word}) == f"k: {word}\n") == (word in {"y", "n"})


@pytest.mark.parametrize(
    "text",
    [
        "${{parent.jobs.shard.outputs.shards}}",
        "azureml:gpu-cluster",
        "builtin:digits",
        "accuracy >= 0.97; loss < 0.2",
        "./components/train/component.yml",
    ],
)
def test_common_texts_need_no_quotes(text: str) -> None:
    assert yaml_dump.dump({"k": text}) == f"k: {text}\n"


def test_a_long_command_breaks_before_its_options() -> None:
    options = "--data ${{inputs.data}} $[[--tag ${{inputs.tag}}]] --lr ${{inputs.learning_rate}} && ls"
    command = f"python train.py {options} --epochs 20"
    assert yaml_dump.dump({"command": command}) == (
        "command: >-\n"
        "  python train.py\n"
        "  --data ${{inputs.data}}\n"
        "  $[[--tag ${{inputs.tag}}]]\n"
        "  --lr ${{inputs.learning_rate}}\n"
        "  && ls\n"
        "  --epochs 20\n"
    )


def test_comments_stand_behind_values() -> None:
    document = {
        "inputs": {"learning_rate": Field(0.4, comment="0.05 × κ"), "n": Field(8)},
        "list": [1, {"a": 2}],
    }
    assert yaml_dump.dump(document) == (
        "inputs:\n  learning_rate: 0.4  # 0.05 × κ\n  n: 8\nlist:\n  - 1\n  - a: 2\n"
    )


def test_paragraphs_have_empty_lines_between_them() -> None:
    document = {"type": "pipeline", "jobs": {"one": {"type": "command"}, "two": {"list": []}}, "z": ""}
    assert yaml_dump.dump(document, header="Made by a test", paragraphs="jobs") == (
        "# Made by a test\ntype: pipeline\n\n"
        "jobs:\n  one:\n    type: command\n\n  two:\n    list: []\nz: ''\n"
    )


def test_a_comment_stands_behind_the_start_of_a_block() -> None:
    values = {"text": "a\nb\n", "map": {"x": 1}, "list": [1], "empty": {}}
    document = {name: Field(value, comment="why\nso") for name, value in values.items()}
    assert yaml_dump.dump(document) == (
        "text: |  # why so\n  a\n  b\nmap:  # why so\n  x: 1\nlist:  # why so\n  - 1\nempty: {}  # why so\n"
    )


def test_one_comment_makes_no_difference_to_the_next_value() -> None:
    items = [Field(1, comment="first"), Field({"k": "v"}, comment="second"), "third"]
    assert pyyaml.safe_load(yaml_dump.dump({"items": items})) == {"items": [1, {"k": "v"}, "third"]}
