"""``sweep:`` of a step: the plan of each trial, the compiled node, and what a trial derives by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

import worldsize
from worldsize.planning.localise import localise
from worldsize.planning.model import Rule
from worldsize.planning.rates import scale_learning_rate
from wsshards.errors import UserError
from wstrain.scaling import Batches, complete_batches, complete_rates

SPEC = """\
name: digits
compute:
  gpu: {{target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}}
steps:
  shard: {{uses: shard_data, with: {{source: "builtin:digits"}}}}
  train:
    uses: train_ddp
    instance_count: 2
    timeout: 3600
    environment_variables: {{NOTE: "two words"}}
    with: {{model: cnn, epochs: 3, optimizer: {optimizer}}}
    scale: {{reference: {{batch_size: 32, learning_rate: 0.05}}, rule: {rule}}}
    sweep:
      search_space: {space}
      objective: {{goal: minimize, primary_metric: loss}}
      limits: {{max_total_trials: 6, max_concurrent_trials: 2}}
"""
BATCHES = "{global_batch_size: {type: choice, values: [256, 64, 128]}}"


def write(folder: Path, space: str, optimizer: str = "sgd", rule: str = "auto") -> Path:
    path = folder / "spec.yml"
    path.write_text(SPEC.format(space=space, optimizer=optimizer, rule=rule), encoding="utf-8")
    return path


def compiled(folder: Path, space: str, **more: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sweep node and the component of its trials."""
    done = worldsize.compile(write(folder, space, **more), folder / "out")
    node = pyyaml.safe_load(done.pipeline.read_text())["jobs"]["train"]
    return node, pyyaml.safe_load((done.folder / node["trial"]).read_text())


@pytest.mark.parametrize(
    ("rule", "factors"), [("linear", (8, 2, 4)), ("sqrt", (8**0.5, 2**0.5, 2)), ("none", (1, 1, 1))]
)
def test_a_swept_batch_moves_the_learning_rate_by_the_rule(
    rule: str, factors: tuple[float, ...], tmp_path: Path
) -> None:
    plan = worldsize.plan(write(tmp_path, BATCHES, rule=rule)).steps["train"]
    assert plan.sweep is not None
    rates = [trial.inputs["learning_rate"] for trial in plan.sweep.trials]
    assert rates == pytest.approx([0.05 * factor for factor in factors])
    assert [trial.inputs["batch_size_per_device"] for trial in plan.sweep.trials] == [32, 8, 16]
    assert plan.training is not None
    assert plan.training.global_batch_size == 64, "the plan of the step is that of the smallest batch"
    assert ("learning_rate" in plan.sweep.varying) == (rule != "none")


def test_the_table_shows_each_trial_and_what_the_sweep_costs(tmp_path: Path) -> None:
    table = str(worldsize.plan(write(tmp_path, BATCHES)))
    assert (
        "sweep over global_batch_size: at most 6 trials, 2 at once; 6 × 2 instances = 12 instance runs"
        in table
    )
    assert "global_batch_size 128: learning rate 0.2, batch size per device 16, steps per epoch 11" in table


def test_a_sweep_is_compiled_to_what_azure_ml_reads(tmp_path: Path) -> None:
    node, trial = compiled(tmp_path, BATCHES)
    assert (node["type"], node["limits"]["timeout"], node["sampling_algorithm"]) == ("sweep", 3600, "random")
    assert node["search_space"] == {"global_batch_size": {"type": "choice", "values": [256, 64, 128]}}
    assert not {"distribution", "environment_variables"} & node.keys(), "a sweep node has neither"
    assert trial["distribution"] == {"type": "pytorch", "process_count_per_instance": 4}
    assert trial["resources"]["instance_count"] == node["resources"]["instance_count"] == 2
    assert trial["command"].startswith("export NOTE='two words' && python train.py")
    given = {name: value for name, value in node["inputs"].items() if "batch" in name or "rate" in name}
    assert given == {
        "batch_size_per_device": 32,
        "learning_rate": 0,
        "reference_learning_rate": 0.05,
        "reference_batch_size": 32,
        "learning_rate_rule": "linear",
    }
    assert node["inputs"]["gradient_accumulation_steps"] == 0


def test_a_swept_rate_is_used_as_it_is(tmp_path: Path) -> None:
    node, _ = compiled(tmp_path, "{learning_rate: {type: loguniform, min_value: -6, max_value: -1}}")
    assert "learning_rate" not in node["inputs"]
    assert "reference_learning_rate" not in node["inputs"], "the trial derives where the warm-up starts"
    assert (node["inputs"]["global_batch_size"], node["inputs"]["learning_rate_rule"]) == (256, "linear")


def test_a_sweep_over_something_else_changes_nothing_of_the_plan(tmp_path: Path) -> None:
    node, _ = compiled(tmp_path, "{weight_decay: {type: uniform, min_value: 0.0, max_value: 0.1}}")
    assert (node["inputs"]["global_batch_size"], node["inputs"]["learning_rate"]) == (256, 0.4)
    assert "reference_batch_size" not in node["inputs"]


def test_an_own_command_reads_its_values_as_inputs(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(
        """\
name: own
compute: {cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}}
steps:
  train:
    command: python -c "print(${{search_space.rate}}, ${{inputs.kind}})"
    environment: azureml:e:1
    sweep:
      search_space:
        rate: {type: uniform, min_value: 0.1, max_value: 1}
        kind: {type: choice, values: [a, b]}
      sampling_algorithm: {type: random, seed: 3}
      objective: {goal: maximize, primary_metric: accuracy}
      limits: {max_total_trials: 2}
"""
    )
    done = worldsize.compile(path, tmp_path / "out")
    node = pyyaml.safe_load(done.pipeline.read_text())["jobs"]["train"]
    trial = pyyaml.safe_load((done.folder / node["trial"]).read_text())
    assert trial["inputs"] == {"rate": {"type": "number"}, "kind": {"type": "string"}}
    assert trial["command"] == 'python -c "print(${{inputs.rate}}, ${{inputs.kind}})"'
    assert "inputs" not in node


def test_processes_here_share_the_batch_of_every_trial(tmp_path: Path) -> None:
    space = "{global_batch_size: {type: choice, values: [96, 160]}}"
    plan = worldsize.plan(write(tmp_path, space))
    here = localise(plan.steps["train"], 5).topology.world_size
    assert here == 4
    assert 96 % here == 160 % here == 0


@given(
    st.sampled_from(["none", "linear", "sqrt"]),
    st.integers(1, 64),
    st.integers(1, 8),
    st.integers(1, 16),
    st.integers(1, 64),
)
def test_a_trial_derives_what_the_plan_says(
    rule: Rule, most: int, replicas: int, share: int, reference: int
) -> None:
    global_batch = share * replicas
    batches = complete_batches(most, 0, global_batch, replicas)
    assert batches.per_device * batches.accumulation * replicas == batches.global_batch == global_batch
    assert batches.per_device <= most
    rates = complete_rates(0, 0.1, rule, global_batch, reference)
    assert rates.peak == pytest.approx(scale_learning_rate(rule, global_batch / reference, 0.1))
    again = complete_rates(rates.peak, None, rule, global_batch, reference)
    assert again.reference == pytest.approx(0.1)


def test_what_is_given_is_kept() -> None:
    assert complete_batches(8, 2, 0, 4) == Batches(8, 2, 64)
    assert complete_batches(8, 1, 32, 4) == Batches(8, 1, 32)
    assert complete_rates(0.3, 0.1, "none", 32, None).reference == 0.1
    assert complete_rates(0.3, None, "none", 32, None).reference is None


def test_what_cannot_be_derived_is_said() -> None:
    with pytest.raises(UserError, match="`global_batch_size` is 10, which 4 replicas cannot share equally"):
        complete_batches(8, 0, 10, 4)
    with pytest.raises(UserError, match="`learning_rate` is 0, and there is no reference to derive it from"):
        complete_rates(0, None, "linear", 32, 32)


@pytest.mark.parametrize(("model", "known"), [("cnn", True), ("net.py:build", False)])
def test_a_metric_that_the_users_file_may_bring_is_not_doubted(
    model: str, known: bool, tmp_path: Path
) -> None:
    path = write(tmp_path, BATCHES)
    text = path.read_text(encoding="utf-8").replace("model: cnn", f'model: "{model}"')
    path.write_text(text.replace("primary_metric: loss", "primary_metric: pinball"), encoding="utf-8")
    (tmp_path / "net.py").write_text(
        "def build():\n    ...\n\n\ndef metrics(outputs, targets):\n    return {'pinball': 0.0}\n",
        encoding="utf-8",
    )
    codes = [each.code for each in worldsize.check(path).diagnostics]
    assert ("WS659" in codes) == known, codes
