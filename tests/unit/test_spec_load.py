"""A good spec as typed values with places; any spec at all as problems or a model, never an exception."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize import spec
from worldsize.documents import yaml

FULL = """\
name: everything
display_name: Every field
description: A spec that says all that can be said
experiment_name: all-of-it
tags: {team: vision, on: "1"}
compute:
  gpu:
    target: azureml:gpu-cluster
    instance_type: Standard_NC96ads_A100_v4
    min_instances: 0
    max_instances: 4
    tier: low_priority
    idle_time_before_scale_down: 120
  cpu: {target: azureml:cpu-cluster}
steps:
  shard: {uses: shard_data, compute: cpu, with: {source: "builtin:digits"}}
  train:
    command: python train.py --lr ${{plan.learning_rate}}
    code: ./src
    environment: {image: "mcr.microsoft.com/azureml/base:1", conda_file: conda.yml}
    distribution: {type: pytorch, process_count_per_instance: 4}
    display_name: Train
    description: Trains
    compute: gpu
    instance_count: 2.0
    shm_size: 16g
    timeout: 7200
    environment_variables: {NCCL_DEBUG: INFO}
    with:
      shards: ${{parent.jobs.shard.outputs.shards}}
      raw: {type: uri_folder, path: "azureml:raw@latest", mode: download}
      deep: true
    outputs: {model: mlflow_model, log: {type: uri_file, mode: upload}}
    scale:
      reference: {batch_size: 32, learning_rate: 1, gpus: 1}
      rule: sqrt
      optimizer: adamw
      epochs: 12
      beta1: 0.9
      beta2: 0.999
      epsilon: 1.0e-8
      warmup_epochs: 0.5
      rows: 1437
      batch_size_per_device: 16
      gradient_accumulation_steps: 2
      global_batch_size: 256
      learning_rate: 0.4
  register:
    uses: register
    compute: cpu
    with: {model_name: digits}
    when: {accuracy: ">= 0.97", loss: "< 2e-1"}
    on_fail: skip
schedule:
  name: weekly
  recurrence: {frequency: week, interval: 1, schedule: {hours: [4], minutes: 0, week_days: monday}}
  time_zone: UTC
  start_time: "2026-03-01T03:00:00"
  end_time: "2027-03-01T03:00:00"
settings: {default_datastore: "azureml:blobs", continue_on_step_failure: false, force_rerun: true}
"""


def read(text: str) -> tuple[spec.Spec | None, list[str]]:
    loaded, problems = spec.from_document(yaml.load("spec.yml", text))
    return loaded, [f"{problem.span}: {problem.slug}: {problem.message}" for problem in problems]


@pytest.fixture(scope="module")
def full() -> spec.Spec:
    loaded, problems = read(FULL)
    assert problems == []
    assert loaded is not None
    return loaded


def test_values_have_their_types(full):
    train = full.steps["train"]
    assert train.instance_count.value == 2
    assert type(train.instance_count.value) is int
    assert type(train.scale.reference_learning_rate.value) is float
    assert train.scale.epsilon.value == 1e-8
    assert train.scale.epochs.value == 12.0
    assert train.with_["deep"].value is True
    assert train.with_["raw"].value == {
        "type": "uri_folder",
        "path": "azureml:raw@latest",
        "mode": "download",
    }
    assert train.outputs["model"].value == "mlflow_model"
    assert train.distribution.type.value == "pytorch"
    assert full.steps["register"].when["loss"].value == "< 2e-1"
    assert full.schedule.recurrence.value["schedule"]["hours"] == [4]
    assert full.settings["force_rerun"].value is True
    assert list(full.steps) == ["shard", "train", "register"]


def test_keys_keep_their_text(full):
    """YAML 1.1 reads the bare key `on` as true; a tag or step of that name is still called `on`."""
    assert full.tags["on"].value == "1"


def test_every_value_stands_where_it_was_written(full):
    lines = FULL.splitlines()
    train = full.steps["train"]
    for located, text in [
        (full.name, "everything"),
        (train.compute, "gpu"),
        (train.scale.learning_rate, "0.4"),
        (train.with_["deep"], "true"),
        (full.compute["gpu"].tier, "low_priority"),
        (full.schedule.start_time, '"2026-03-01T03:00:00"'),
    ]:
        span = located.span
        assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == text
    assert lines[train.span.line - 1].strip() == "train:"
    assert lines[train.scale.span.line - 1].strip() == "scale:"
    plan = train.command.value.index("plan.learning_rate")
    place = train.command.node.subspan(plan, plan + 4)
    assert lines[place.line - 1][place.column - 1 : place.end_column - 1] == "plan"


def test_the_only_profile_serves_steps_that_name_none():
    loaded, problems = read("name: a\ncompute: {gpu: {target: 'azureml:c'}}\nsteps: {t: {uses: x}}\n")
    assert problems == []
    assert loaded.steps["t"].compute.value == "gpu"


def test_aliases_and_merge_keys_are_followed():
    loaded, problems = read(
        "name: a\n"
        "compute: {gpu: &base {target: 'azureml:c', max_instances: 2}, big: {<<: *base, max_instances: 8}}\n"
        "steps: {t: {uses: x, compute: big}}\n"
    )
    assert problems == []
    assert loaded.compute["big"].max_instances.value == 8
    assert loaded.compute["big"].target.value == "azureml:c"


PLAIN = pyyaml.safe_load(FULL.replace(" on: ", ' "on": '))
ODD = [
    None,
    "",
    "x",
    0,
    -1,
    1e9,
    True,
    [],
    {},
    [1],
    {"a": 1},
    "${{parent.inputs.x}}",
    float("nan"),
    10**30,
    "1e-3",
]


def paths(value, path=()):
    """The path of every value inside nested mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


PATHS = list(paths(PLAIN))


@st.composite
def mutated(draw) -> dict:
    """The full spec with up to four keys dropped, renamed, or given odd values."""
    data = copy.deepcopy(PLAIN)
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4)):
        holder = data
        for key in path[:-1]:
            if not isinstance(holder, dict | list) or (isinstance(holder, dict) and key not in holder):
                break
            if isinstance(holder, list) and not (isinstance(key, int) and key < len(holder)):
                break
            holder = holder[key]
        last = path[-1]
        if isinstance(holder, dict) and last in holder:
            deed = draw(st.sampled_from(["drop", "rename", "retype"]))
            if deed == "drop":
                del holder[last]
            elif deed == "rename":
                holder[draw(st.text(min_size=1, max_size=8) | st.just(f"{last}s"))] = holder.pop(last)
            else:
                holder[last] = draw(st.sampled_from(ODD))
    return data


@settings(max_examples=100)
@given(mutated())
def test_any_mutation_gives_problems_or_a_spec(data):
    text = pyyaml.safe_dump(data, allow_unicode=True, sort_keys=False)
    document = yaml.load("spec.yml", text)
    loaded, problems = spec.from_document(document)
    assert loaded is not None or problems
    assert len(set(problems)) == len(problems)
    height = text.count("\n") + 1
    for problem in problems:
        assert 1 <= problem.span.line <= height
        assert problem.message
        assert not problem.message.endswith(".")
        assert len(problem.message) <= 200, problem.message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "steps", "compute", "scale", "x"]), inner)
        ),
    )
)
def test_any_yaml_gives_problems_or_a_spec(data):
    text = pyyaml.safe_dump(data, allow_unicode=True)
    loaded, problems = read(text)
    assert loaded is not None or problems


def test_loading_needs_no_heavy_import():
    code = (
        "import sys, worldsize.spec as s; from worldsize.documents import yaml;"
        "s.from_document(yaml.load(sys.argv[1]));"
        "heavy = {'torch', 'mlflow', 'azure', 'rich', 'requests', 'numpy'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    example = Path(__file__).parents[2] / "pipelines" / "digits_ddp.yml"
    subprocess.run([sys.executable, "-c", code, str(example)], check=True, timeout=60)


def test_a_node_is_shown_without_the_text_of_its_file() -> None:
    root = yaml.load("spec.yml", FULL).root
    assert "Source('spec.yml')" in repr(root)
    assert repr(FULL) not in repr(root)
