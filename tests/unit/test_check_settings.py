"""`worldsize.yml`, and the tree that a check stays in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest
import yaml as pyyaml

import worldsize
from worldsize.checking import settings
from worldsize.documents import yaml

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "worldsize.schema.json").read_text())
JOB = """\
type: command
command: python -c "print('hello')"
environment: azureml:my-training:4
compute: azureml:gpu-cluster
"""
DISTRIBUTED = (
    JOB
    + "resources: {instance_count: 2}\nlimits: {timeout: 3600}\n"
    + "distribution: {type: pytorch, process_count_per_instance: 8}\n"
)
TWICE = JOB + "compute: azureml:cpu-cluster\n"
CLUSTER = "compute: {gpu-cluster: {instance_type: Standard_NC96ads_A100_v4}}\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def found(*paths: str, **options: list[str]) -> list[tuple[str, str]]:
    report = worldsize.check(paths, **options)  # type: ignore[arg-type]
    return [(os.path.relpath(each.span.path), each.code) for each in report.diagnostics]


def test_clusters_are_known_by_name(tree: Path) -> None:
    write(tree, {"job.yml": DISTRIBUTED})
    assert found("job.yml") == []
    write(tree, {"worldsize.yml": CLUSTER})
    assert found("job.yml") == [("job.yml", "WS203")]


def test_the_nearest_file_above_counts(tree: Path) -> None:
    write(tree, {"a/b/job.yml": TWICE, "a/c/job.yml": TWICE, "job.yml": TWICE})
    write(tree, {"worldsize.yml": "severity: {WS002: info}\n", "a/b/worldsize.yml": "ignore: [WS002]\n"})
    assert found("a/b/job.yml") == []
    report = worldsize.check(".")
    assert [(each.span.path, each.severity) for each in report.diagnostics] == [
        ("a/c/job.yml", "info"),
        ("job.yml", "info"),
    ]
    assert report.files == ("a/b/job.yml", "a/b/worldsize.yml", "a/c/job.yml", "job.yml", "worldsize.yml")
    assert report.exit_code == 0


def test_a_file_above_the_checkout_does_not_count(tree: Path) -> None:
    write(tree, {"worldsize.yml": "ignore: [WS002]\n", "repo/job.yml": TWICE, "repo/.git/HEAD": "x"})
    assert found("repo") == [("repo/job.yml", "WS002")]


def test_the_command_line_selects_first_and_ignores_more(tree: Path) -> None:
    write(tree, {"job.yml": TWICE + "tpe: 1\n", "worldsize.yml": "select: [WS140]\n"})
    assert found("job.yml") == [("job.yml", "WS140")]
    assert found("job.yml", select=["WS0"]) == [("job.yml", "WS002")]
    assert found("job.yml", ignore=["WS1"]) == []


@pytest.mark.parametrize(
    ("level", "expected"), [("info", "info"), ("warning", "warning"), ("off", None), ('"off"', None)]
)
def test_severities_by_code_beginning_and_slug(tree: Path, level: str, expected: str | None) -> None:
    write(tree, {"job.yml": TWICE})
    for name in ("WS002", "WS0", "yaml-duplicate-key"):
        write(tree, {"worldsize.yml": f"severity: {{{name}: {level}}}\n"})
        severities = [each.severity for each in worldsize.check("job.yml").diagnostics]
        assert severities == ([expected] if expected else [])
    write(tree, {"worldsize.yml": "severity: {WS0: info, WS002: error}\n"})
    assert worldsize.check("job.yml").diagnostics[0].severity == "error"


def test_faults_of_the_file_are_reported_with_any_file_it_counts_for(tree: Path) -> None:
    write(tree, {"job.yml": JOB, "worldsize.yml": "selct: [WS1]\nselect: [WS2]\n"})
    assert found("job.yml") == [("worldsize.yml", "WS030")]
    write(tree, {"worldsize.yml": "a: b: c\n"})
    assert found("job.yml") == [("worldsize.yml", "WS001")]


RIGHT = [
    "{}",
    CLUSTER,
    "vm_sizes: {Standard_ND8: {gpus: 8, vcpus: 96, memory_gib: 900.5}, Standard_E9_v9: {gpus: 0}}",
    "vm_sizes: {Standard_ND8: {gpus: 8.0}}",  # whole in JSON Schema, and in a spec
    "assets: {azureml:a@latest: ./a, https://example.com/x: b}",
    "severity: {WS4: off}",
    "allow: []",
    "select: [WS2, yaml-empty]\nignore: [ws3]",
]
WRONG = [
    "[]",
    "selct: [WS1]",
    "select: WS1",
    "ignore: [1]",
    "severity: [WS1]",
    "severity: {WS1: loud}",
    "severity: {WS1: true}",
    "allow: shared",
    "assets: [azureml:a]",
    "assets: {data: ./data}",
    "assets: {azureml:a: 1}",
    "assets: {azureml:a: [./data]}",
    "assets: {azureml:a: ''}",
    "region: West Europe",
    "region: [westeurope]",
    "region: 5",
    "compute: [gpu]",
    "compute: {gpu: Standard_NC96ads_A100_v4}",
    "compute: {gpu: {instance_type: 4}}",
    "compute: {gpu: {max_instances: 0}}",
    "compute: {gpu: {max_instances: 1.5}}",
    "compute: {gpu: {tier: spot}}",
    "vm_sizes: [Standard_ND8]",
    "vm_sizes: {Standard_ND8: 8}",
    "vm_sizes: {Standard_ND8: {vcpus: 8}}",
    "vm_sizes: {Standard_ND8: {gpus: -1}}",
    "vm_sizes: {Standard_ND8: {gpus: false}}",
    "vm_sizes: {Standard_ND8: {gpus: 99999999999}}",
    "vm_sizes: {Standard_ND8: {gpus: 8, vcpus: 0}}",
    "vm_sizes: {Standard_ND8: {gpus: 8, memory_gib: 0}}",
    "vm_sizes: {Standard_ND8: {gpus: 8, memory_gib: .inf}}",
    "vm_sizes: {Standard_ND8: {gpus: 8, gpu_model: H900}}",
    "compute: {gpu: {size: Standard_NC96ads_A100_v4}}",
]


@pytest.mark.parametrize("text", RIGHT + WRONG)
def test_the_schema_and_the_reader_agree(text: str) -> None:
    problems = settings.read_settings(yaml.load("worldsize.yml", text)).problems
    errors = list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(pyyaml.safe_load(text)))
    assert bool(problems) is bool(errors) is (text in WRONG)
    assert len(problems) <= 1


def test_every_part_of_the_schema_is_described() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    defined = SCHEMA["$defs"]
    cluster, size = defined["cluster"]["properties"], defined["vm_size"]["properties"]
    parts = [*SCHEMA["properties"].values(), *cluster.values(), *size.values()]
    assert all(
        part["description"].endswith(".") and "examples" in part for part in parts if "enum" not in part
    )


COMPONENT = "type: command\nname: outer\ncommand: echo ${{inputs.missing}}\nenvironment: azureml:e:1\n"
PIPELINE = """\
type: pipeline
jobs:
  first:
    type: command
    component: ../outside/component.yml
    compute: azureml:cpu-cluster
"""


def test_a_component_outside_the_tree_is_not_read_unless_allowed(tree: Path) -> None:
    write(tree, {"../outside/component.yml": COMPONENT, "job.yml": PIPELINE})
    report = worldsize.check("job.yml")
    assert [(each.code, each.severity) for each in report.diagnostics] == [("WS034", "info")]
    assert not any("outside" in path for path in report.sources)
    write(tree, {"worldsize.yml": "allow: [../outside]\n"})
    report = worldsize.check("job.yml")
    assert "WS034" not in {each.code for each in report.diagnostics}
    assert any("missing" in each.message for each in report.diagnostics)


def test_links_out_of_the_tree_are_not_followed(tree: Path) -> None:
    write(tree, {"../outside/component.yml": COMPONENT, "../outside/job.yml": "a: [\ncomponent: azureml:x"})
    (tree / "component.yml").symlink_to("../outside/component.yml")
    (tree / "linked.yml").symlink_to("../outside/job.yml")
    write(tree, {"job.yml": PIPELINE.replace("../outside/", "./")})
    assert found(".") == [("job.yml", "WS034")]


def test_a_schedule_does_not_lead_out_of_the_tree(tree: Path) -> None:
    write(tree, {"../outside/job.yml": TWICE})
    schedule = "name: s\ntrigger: {type: cron, expression: '0 8 * * 1'}\ncreate_job: ../outside/job.yml\n"
    write(tree, {"schedule.yml": schedule})
    assert ("WS002") not in {code for _, code in found("schedule.yml")}


def test_specs_stay_in_the_tree_too(tree: Path) -> None:
    write(tree, {"../outside/component.yml": COMPONENT})
    write(
        tree,
        {
            "spec.yml": "name: s\ncompute:\n  cpu: {target: azureml:c, instance_type: Standard_D4s_v5}\n"
            "steps:\n  first: {uses: ../outside/component.yml, compute: cpu}\n"
        },
    )
    assert found("spec.yml") == [("spec.yml", "WS034")]


def test_a_link_to_nothing_is_a_file_that_cannot_be_read(tree: Path) -> None:
    (tree / "job.yml").symlink_to("nowhere.yml")
    assert found("job.yml") == [("job.yml", "WS003")]
    assert found(".") == [("job.yml", "WS003")]
