from __future__ import annotations

import json
import math
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.azureml.shape import CHECKED, check_shape, recognise
from worldsize.azureml.shape.catalog import fits_shape
from worldsize.base import resources
from worldsize.documents.shape import is_date_time
from worldsize.documents.yaml import load

FILES = sorted((resources.schemas() / "azureml").glob("*.schema.json"))
URL = "https://azuremlschemas.azureedge.net/latest"


def kind_of(text: str, path: str = "file.yml") -> str | None:
    return recognise(load(path, text).root, path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"$schema: {URL}/pipelineJob.schema.json\njobs: {{}}", "pipeline-job"),
        (f"$schema: {URL}/commandJob.schema.json\ntype: pipeline\njobs: {{}}", "pipeline-job"),
        (f"$schema: {URL}/commandComponent.schema.json\ncommand: x", "command-component"),
        (f"$schema: {URL}/parallelComponent.schema.json\ntype: parallel", "parallel-component"),
        (f"$schema: {URL}/amlCompute.schema.json\nname: x", "compute"),
        (f"$schema: {URL}/managedOnlineDeployment.schema.json\nname: x", "online-deployment"),
        (f"$schema: {URL}/modelBatchDeployment.schema.json\nname: x", "batch-deployment"),
        (f"$schema: {URL}/managedOnlineEndpoint.schema.json\nname: x", "online-endpoint"),
        (f"$schema: {URL}/batchEndpoint.schema.json\nname: x", "batch-endpoint"),
        (f"$schema: {URL}/model.schema.json\nname: x", "model"),
        (f"$schema: {URL}/workspace.schema.json\nname: x", "other"),
        (
            "name: blue\ntype: kubernetes\nendpoint_name: e\nmodel: {path: ./m}\ninstance_count: 1",
            "online-deployment",
        ),
        ("name: m\ntype: mlflow_mode\npath: ./m", "model"),
        ("name: b\nendpoint_name: e\nmodel: azureml:m:1\ncompute: azureml:cpu", "batch-deployment"),
        (f"$schema: {URL}/autoMLJob.schema.json\ntype: automl", "other"),
        ("type: automl\ntask: classification", "other"),
        ("type: pipeline\njobs: {a: {component: ./c.yml}}", "pipeline-job"),
        ("jobs: {a: {type: command, command: x}}", "pipeline-job"),
        ("type: Pipeline\njobs: {a: {command: x}}", "pipeline-job"),
        ("type: pipeline\njob: {}\nsettings: {}", "pipeline-job"),
        ("type: pipeline\nversion: 1\njobs: {a: {component: ./c.yml}}", "pipeline-component"),
        (
            "type: pipeline\ninputs: {n: {type: integer}}\njobs: {a: {component: ./c.yml}}",
            "pipeline-component",
        ),
        ("type: command\ncommand: x\ncompute: azureml:cpu", "command-job"),
        ("command: x\nenvironment: azureml:e:1", "command-job"),
        ("type: command\nname: a\ncommand: x\ninputs: {lr: {type: number}}", "command-component"),
        ("type: command\nname: a\ncommand: x\nversion: 1", "command-component"),
        ("type: sweep\ntrial: {}", "sweep-job"),
        ("name: a\ntype: AmlCompute\nsize: x", "compute"),
        ("name: a\ntype: kubernetes\nresource_id: x", "compute"),
        ("name: a\ntrigger: {type: cron, expression: x}\ncreate_job: ./p.yml", "schedule"),
        ("name: a\ntrigger: {type: recurrence, frequency: day}", "schedule"),
        ("name: a\ntrigger: {}\ncreate_monitor: {}", "other"),
        ("name: a\ntype: uri_folder\npath: ./x", "data"),
        ("name: a\nimage: x\nconda_file: ./c.yml", "environment"),
        ("paths: [{file: x}]\ntransformations: []", "other"),
    ],
)
def test_files_of_azure_ml_are_recognised(text: str, kind: str) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "on: push\njobs: {build: {runs-on: ubuntu-latest, steps: [{run: make}]}}",
        "on: push\njobs: {call: {uses: ./.github/workflows/x.yml}}",
        "version: '3'\nservices: {web: {image: x, command: y, environment: {A: b}}}",
        "image: x\ncommand: y\nenvironment: {A: b}",
        "name: env\nchannels: [defaults]\ndependencies: [python=3.10]",
        "name: digits\nsteps: {train: {uses: train_ddp}}",
        "trigger: [main]\nsteps: [{script: make}]",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}",
        "$schema: https://json-schema.org/draft/2020-12/schema\ntype: object",
        "kind: pipeline\ntype: docker\nname: default\nsteps: []",
        "repos: [{repo: local}]",
        "- a\n- b",
        "name: web\ntype: kubernetes\nreplicas: 2",
        "name: vm\ntype: VirtualMachine\nregion: west",
        "name: lint\ntype: command\ncommand: make lint\ndescription: x",
        "just text",
        "jobs: {deploy: {command: make deploy}}",
    ],
)
def test_other_files_are_passed_over(text: str) -> None:
    assert kind_of(text) is None


def test_an_mltable_file_is_known_by_its_name() -> None:
    assert kind_of("paths: []", "data/MLTable") == "other"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_a_valid_json_schema_of_bounded_size(path: Any) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert "azure-ai-ml" in schema["$comment"]
    assert path.stat().st_size < 200_000


def references(shape: Any) -> set[str]:
    if isinstance(shape, dict):
        own = {shape["$ref"]} if isinstance(shape.get("$ref"), str) else set()
        return own.union(*(references(value) for value in shape.values()))
    return set().union(*(references(item) for item in shape)) if isinstance(shape, list) else set()


def test_every_reference_leads_somewhere() -> None:
    documents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FILES}
    for name, document in documents.items():
        for reference in references(document):
            file, _, definition = reference.partition("#/$defs/")
            assert definition in documents[file or name]["$defs"], reference


def test_every_kind_has_its_file() -> None:
    kinds = {path.name.removesuffix(".schema.json") for path in FILES} - {"common", "nodes"}
    assert kinds == CHECKED


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("2030-01-31T08:00:00", True),
        ("2030-01-31 08:00", True),
        ("2030-01-31T08:00:00.25Z", True),
        ("2030-01-31T08:00:00+02:00", True),
        ("2030-02-30T08:00:00", False),
        ("2030-01-31", False),
        ("tomorrow", False),
    ],
)
def test_dates_are_read_as_the_sdk_reads_them(text: str, valid: bool) -> None:
    assert is_date_time(text) is valid


def test_infinite_numbers_fit_nowhere() -> None:
    assert not fits_shape(math.inf, {"type": "number"})
    assert not fits_shape(math.nan, {"type": ["string", "number"]})


def test_one_fault_behind_many_aliases_is_said_once() -> None:
    steps = "".join(f"  s{number}: *step\n" for number in range(50))
    text = f"type: pipeline\njobs:\n  a: &step {{command: [x], environment: 'azureml:e:1'}}\n{steps}"
    root = load("p.yml", text).root
    assert root is not None
    assert [problem.slug for problem in check_shape(root, "pipeline-job")] == ["aml-wrong-type"]


def test_a_component_needs_a_name() -> None:
    root = load("c.yml", "type: command\ncommand: x\nenvironment: azureml:e:1").root
    assert root is not None
    assert [problem.slug for problem in check_shape(root, "command-component")] == ["aml-component-name"]


def test_a_parallel_job_cannot_stand_alone() -> None:
    root = load("p.yml", "$schema: x\ntype: parallel\ninput_data: x").root
    assert root is not None
    assert [problem.slug for problem in check_shape(root, "parallel-job")] == ["aml-not-allowed"]


def pipeline(steps: int) -> str:
    step = (
        "  s{0}:\n    component: ./c.yml\n    inputs: {{d: '${{{{parent.inputs.d}}}}', n: {0}}}\n"
        "    resources: {{instance_count: 2}}\n    distribution: {{type: pytorch}}\n"
    )
    return "type: pipeline\njobs:\n" + "".join(step.format(number) for number in range(steps))


def test_checking_is_linear_in_the_number_of_steps(calls: Callable[[Callable[[], object]], int]) -> None:
    def work(steps: int) -> int:
        root = load("p.yml", pipeline(steps)).root
        assert root is not None
        assert check_shape(root, "pipeline-job") == []
        return calls(lambda: check_shape(root, "pipeline-job"))

    assert work(2000) < 8.5 * work(250)


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_checking_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom worldsize.azureml.shape import check_shape\n"
        "from worldsize.documents.yaml import load\n"
        "check_shape(load('x', 'type: pipeline\\njobs: {a: {comand: x}}').root, 'pipeline-job')\n"
        "heavy = {'azure', 'marshmallow', 'jsonschema', 'rich', 'click'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


WORD_LIST = [
    "type", "jobs", "a", "command", "component", "trial", "inputs", "outputs", "environment",
    "resources", "distribution", "limits", "id", "tags", "code", "settings", "trigger", "create_job",
    "search_space", "objective", "name", "value", "pytorch", "pipeline", "cron", "choice", "uri_folder",
    "on", "number", "${{parent.inputs.x}}", "azureml:x:1",
]  # fmt: skip
WORDS = st.sampled_from(WORD_LIST)
TREES = st.recursive(
    WORDS
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dates().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=100)
@given(tree=TREES, kind=st.sampled_from(sorted(CHECKED)))
def test_any_tree_gives_problems_and_no_exception(tree: Any, kind: str) -> None:
    import yaml

    document = load("x.yml", yaml.safe_dump(tree))
    recognise(document.root, "x.yml")
    if document.root is not None:
        lines = document.text.count("\n") + 1
        for problem in check_shape(document.root, kind):
            assert 1 <= problem.span.line <= lines
            assert len(problem.message) <= 200


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
