"""Bad specs: the one problem of each, at its exact place and in its exact words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from worldsize import spec
from worldsize.documents import yaml

GOOD = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  train:
    uses: train_ddp
    with: {model: cnn}
    scale:
      reference: {batch_size: 32, learning_rate: 0.05}
"""
ENVIRONMENT = "environment: azureml:torch:1"

# What is changed in GOOD (text, replacement), then slug, line, column, message, part of the help.
CASES: list[tuple[str, str, str, int, int, str, str]] = [
    ("name:", "nmae:", "spec-unknown-key", 1, 1, "unknown key `nmae` at the top of the spec", "mean `name`"),
    (
        "    uses",
        "    component",
        "spec-unknown-key",
        6,
        5,
        "unknown key `component` in `steps.train`",
        "`uses`",
    ),
    (
        "    with",
        "    inputs",
        "spec-unknown-key",
        7,
        5,
        "unknown key `inputs` in `steps.train`",
        "mean `with`",
    ),
    (
        "{model: cnn}",
        "{model: cnn}\n    colour: red",
        "spec-unknown-key",
        8,
        5,
        "unknown key `colour` in `steps.train`",
        "keys that are allowed here: `uses`, `command`",
    ),
    ("name: digits\n", "", "spec-missing-key", 1, 1, "the spec has no `name`", "add `name: digits_ddp`"),
    (
        "batch_size: 32, ",
        "",
        "spec-missing-key",
        9,
        7,
        "`steps.train.scale.reference` has no `batch_size`",
        "add `batch_size: 32`",
    ),
    (
        "target: azureml:gpu-cluster, ",
        "",
        "spec-missing-key",
        3,
        3,
        "`compute.gpu` has no `target`",
        "add `target: a",
    ),
    (
        "0.05",
        "1e-3",
        "spec-wrong-type",
        9,
        50,
        "`learning_rate` must be a number, but `1e-3` is text",
        "`1e-3` is text in YAML 1.1, as Azure ML reads it; write 1.0e-3",
    ),
    (
        "0.05",
        ".inf",
        "spec-wrong-type",
        9,
        50,
        "`learning_rate` must be a number, but `.inf` is not a finite number",
        "",
    ),
    (
        "0.05",
        ".nan",
        "spec-wrong-type",
        9,
        50,
        "`learning_rate` must be a number, but `.nan` is not a finite number",
        "",
    ),
    (
        "32",
        "two",
        "spec-wrong-type",
        9,
        31,
        "`batch_size` must be a whole number, but `two` is text",
        "`batch_size: 32`",
    ),
    (
        "32",
        "",
        "spec-wrong-type",
        9,
        19,
        "`batch_size` has no value; it must be a whole number",
        "`batch_size: 32`",
    ),
    (
        "name: digits",
        "name: yes",
        "spec-wrong-type",
        1,
        7,
        "`name` must be text, but `yes` is true or false",
        'to mean the text, write "yes"',
    ),
    (
        "{model: cnn}",
        "{model: 2024-01-01}",
        "spec-wrong-type",
        7,
        19,
        "`model` must be text, a number, true or false, or a mapping, but `2024-01-01` is a date",
        'to mean the text, write "2024-01-01"',
    ),
    (
        "{model: cnn}",
        "[cnn]",
        "spec-wrong-type",
        7,
        5,
        "`with` must be a mapping, but `[…]` is a list",
        "`with: {model",
    ),
    (
        "scale:\n",
        "scale:\n      rule: linaer\n",
        "spec-value-not-allowed",
        9,
        13,
        "`rule` cannot be `linaer`",
        "did you mean `linear`? allowed: `auto`, `linear`, `sqrt`, `none`",
    ),
    ("32", "0", "spec-out-of-range", 9, 31, "`batch_size` is 0 but must be at least 1", "`batch_size: 32`"),
    (
        "0.05",
        "0",
        "spec-out-of-range",
        9,
        50,
        "`learning_rate` is 0 but must be greater than 0",
        "`learning_rate: 0.05`",
    ),
    (
        "0.05",
        "1.0e+9",
        "spec-out-of-range",
        9,
        50,
        "`learning_rate` is 1.0e+9 but must be at most 1000000",
        "",
    ),
    ("digits", "''", "spec-out-of-range", 1, 7, "`name` is empty", "write for example `name: digits_ddp`"),
    (
        "{model: cnn}",
        "{model: cnn}\n    when: {}",
        "spec-out-of-range",
        8,
        5,
        "`when` is empty",
        'write for example `when: {accuracy: ">= 0.97", loss: "< 0.2"}`',
    ),
    (
        "digits",
        "2digits",
        "spec-bad-pattern",
        1,
        7,
        "`name` is `2digits`, which does not have the required form",
        "a letter, then letters, digits, `_` and `-`",
    ),
    (
        "digits",
        "|\n  digits",
        "spec-bad-pattern",
        1,
        7,
        "`name` is `digits`, which does not have the required form",
        "",
    ),
    (
        "  train:",
        "  Train:",
        "spec-bad-pattern",
        5,
        3,
        "`Train` is not a name that can be used in `steps`",
        "use a lower-case letter or `_`, then lower-case letters, digits and `_`",
    ),
    (
        "{model: cnn}",
        '{model: cnn}\n    when: {accuracy: "about 1"}',
        "spec-bad-pattern",
        8,
        22,
        "`accuracy` is `about 1`, which does not have the required form",
        "a comparison and a number",
    ),
    (
        "    uses: train_ddp\n",
        "",
        "step-needs-uses-or-command",
        5,
        3,
        "`steps.train` has neither `uses` nor `command`",
        "add `uses: train_ddp` or `command: ",
    ),
    (
        "uses: train_ddp",
        f"uses: train_ddp\n    command: python a.py\n    {ENVIRONMENT}",
        "step-uses-and-command",
        7,
        5,
        "`steps.train` has both `uses` and `command`",
        "keep one of the two",
    ),
    (
        "uses: train_ddp",
        "command: python a.py",
        "spec-missing-key",
        6,
        5,
        "`steps.train` has `command` but no `environment`",
        "add `environment: ",
    ),
    (
        "uses: train_ddp",
        (
            f"command: python a.py\n    {ENVIRONMENT}\n    process_count_per_instance: 4\n"
            "    distribution: {type: pytorch, process_count_per_instance: 2}"
        ),
        "step-count-given-twice",
        8,
        5,
        "`process_count_per_instance` is given twice for step `train`: 4 here, 2 in `distribution`",
        "keep the one in `distribution`",
    ),
    (
        "uses: train_ddp",
        "uses: train_ddp\n    compute: gpus",
        "step-unknown-compute",
        7,
        14,
        "step `train` runs on `gpus`, which is not a profile under `compute:`",
        "did you mean `gpu`? profiles: `gpu`",
    ),
    (
        "target:",
        "min_instances: 5, max_instances: 4, target:",
        "compute-min-above-max",
        3,
        24,
        "`min_instances` is 5 but `max_instances` is 4",
        "`max_instances: 5`",
    ),
]


@pytest.fixture
def problems(tmp_path: Path) -> Callable[[str], list[tuple[str, int, int, str, str]]]:
    """Load a text as a spec; its problems as (slug, line, column, message, help)."""

    def load(text: str) -> list[tuple[str, int, int, str, str]]:
        path = tmp_path / "spec.yml"
        path.write_text(text)
        document = yaml.load(path)
        loaded, found = spec.from_document(document)
        assert document.path == str(path)
        assert loaded is not None or found
        return [(p.slug, p.span.line, p.span.column, p.message, p.help or "") for p in found]

    return load


def test_the_base_of_the_cases_is_good(problems):
    assert problems(GOOD) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[2]}: {case[5][:40]}")
def test_each_fault_is_one_problem_at_its_place(problems, case):
    old, new, slug, line, column, message, help_ = case
    assert old in GOOD
    ((*found, found_help),) = problems(GOOD.replace(old, new, 1))
    assert found == [slug, line, column, message]
    assert help_ in found_help
    assert len(message) <= 200


def test_independent_faults_are_all_reported_in_file_order(problems):
    bad = GOOD.replace("digits", "2digits").replace("32", "0").replace("target", "taget")
    assert [(slug, line) for slug, line, *_ in problems(bad)] == [
        ("spec-bad-pattern", 1),
        ("spec-unknown-key", 3),
        ("spec-out-of-range", 9),
    ]


@pytest.mark.parametrize("text", ["- a\n", "just words\n", "5\n"])
def test_a_file_that_is_no_mapping_is_told_what_a_spec_is(problems, text):
    ((slug, line, column, message, help_),) = problems(text)
    assert (slug, line, column) == ("spec-wrong-type", 1, 1)
    assert message.startswith("the spec must be a mapping")
    assert help_ == "write a mapping with `name`, `compute`, `steps`"


@pytest.mark.parametrize(
    ("key", "entry", "maximum"), [("compute", "{target: azureml:x}", 1000), ("steps", "{uses: x}", 10_000)]
)
def test_too_many_entries_are_one_problem_at_the_first_extra_one(problems, key, entry, maximum):
    lines = "".join(f"  n{index}: {entry}\n" for index in range(maximum + 2))
    text = {"compute": "compute: {c: {target: azureml:x}}\n", "steps": "steps: {s: {uses: x}}\n"}
    found = problems("name: many\n" + "".join({**text, key: f"{key}:\n{lines}"}.values()))
    assert [(slug, message) for slug, _, _, message, _ in found] == [
        ("spec-out-of-range", f"`{key}` has {maximum + 2} entries but may have at most {maximum}")
    ]
    assert found[0][1:3] == (maximum + {"compute": 3, "steps": 4}[key], 3)


def test_yaml_faults_come_through(problems):
    assert [slug for slug, *_ in problems("name: [")] == ["yaml-syntax"]
    assert [slug for slug, *_ in problems("")] == ["yaml-empty"]
    assert [slug for slug, *_ in problems(GOOD + "name: other\n")] == ["yaml-duplicate-key"]


def test_a_misspelt_key_offers_a_safe_replacement(tmp_path):
    path = tmp_path / "spec.yml"
    path.write_text(GOOD.replace("instance_type", "instance_typ"))
    _, (problem,) = spec.from_document(yaml.load(path))
    assert problem.fix is not None
    assert (problem.fix.replacement, problem.fix.span) == ("instance_type", problem.span)
