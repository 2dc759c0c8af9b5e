"""What the checker knows of built-in components: as their files are, and of copies of them only."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize.azureml.component import read_component
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.snapshot import Snapshot
from worldsize.base import resources
from worldsize.facts import table
from worldsize.facts.built_in_components import find_facts
from worldsize.planning.memory import built_in
from worldsize.running.model.task import Task
from worldsize.running.prepare.preparation import choose_mode, list_snapshots
from wsmetrics.names import METRICS

NAMES = [row["name"] for row in table.read_rows("built_in_components")]


@pytest.mark.parametrize("name", NAMES)
def test_a_component_has_what_it_is_known_by(name: str) -> None:
    component, _ = read_component(resources.component_file(name))
    facts = find_facts(component)
    assert component is not None
    assert facts is not None
    assert facts.name == name
    if facts.code_input is not None:
        assert component.inputs[facts.code_input].type == "string"
        assert facts.built_in_models == built_in.NAMES
    assert not [tag for tag in (component.tags.value if component.tags else {}) if "worldsize" in tag]


def test_trainers_and_evaluate_measure_every_metric() -> None:
    of_tasks = {name for names in METRICS.values() for name in names}
    for name in NAMES:
        component, _ = read_component(resources.component_file(name))
        facts = find_facts(component)
        assert facts is not None
        prefix = "" if name == "evaluate" else "validation_"
        assert {f"{prefix}{each}" for each in of_tasks - {"rows"}} <= set(facts.metrics)
        assert ("rows" in facts.metrics) == (name == "evaluate")


SPEC = """
name: own
compute: {{cpu: {{target: azureml:cpu-cluster}}}}
steps:
  shard: {{uses: shard_data, compute: cpu, with: {{source: builtin:digits}}}}
  train: {{uses: train_ddp, compute: cpu, instance_count: 1, process_count_per_instance: 1}}
  evaluate: {{uses: {uses}, compute: cpu}}
  register:
    uses: register
    compute: cpu
    with: {{model_name: digits}}
    when: {{acuracy: ">= 0.9"}}
"""
OWN = """
type: command
name: evaluate
inputs: {model: {type: mlflow_model}, shards: {type: uri_folder}}
outputs: {metrics: {type: uri_folder}}
command: python evaluate.py ${{inputs.model}} ${{inputs.shards}} ${{outputs.metrics}}
environment: azureml:e:1
"""


def test_a_copy_is_recognised_and_a_component_of_the_same_name_is_not(tmp_path: Path) -> None:
    found = {}
    copy = resources.component_file("evaluate").read_text(encoding="utf-8").replace("../_shared", "_shared")
    for name, text in {"copy": copy, "own": OWN}.items():
        (tmp_path / f"{name}.yml").write_text(text, encoding="utf-8")
        spec = tmp_path / f"spec_{name}.yml"
        spec.write_text(SPEC.format(uses=f"./{name}.yml"), encoding="utf-8")
        found[name] = [each.code for each in worldsize.check(spec).diagnostics]
    assert "WS640" in found["copy"]
    assert "WS640" not in found["own"]


def test_built_in_components_run_in_the_current_environment(tmp_path: Path) -> None:
    tasks = {}
    for name in ("shard_data", "evaluate"):
        component, _ = read_component(resources.component_file(name))
        assert component is not None
        assert component.folder is not None
        tasks[name] = Task(name, component, component.folder)
    code, _ = list_snapshots(tasks, CopyAccess())
    assert choose_mode(code, ours=False) == "current"
    code["own"] = Snapshot({"train.py": tmp_path})
    assert choose_mode(code, ours=False) == "isolated"
