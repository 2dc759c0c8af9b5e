"""The block `retrain:`: the steps that it adds, and one problem with its place for each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.checking.checker import check
from worldsize.documents import yaml
from worldsize.retraining.policy import Policy, Topic, read_policy
from worldsize.spec import from_document
from worldsize.spec.model import Spec

SPEC = """\
name: sales
compute: {cpu: {target: azureml:cpu-cluster, instance_type: Standard_D2s_v5, max_instances: 1}}
inputs:
  sales: {type: uri_folder, path: ./sales}
  epochs: 3
steps:
  shard:
    uses: shard_data
    with: {data: "${{parent.inputs.sales}}", label: y, task: regression}
    split: {time: sold_on, test: 0.2}
  train:
    uses: train_ddp
    with: {model: mlp, epochs: 3}
    scale: {reference: {batch_size: 16, learning_rate: 0.001}, rows: 100}
  evaluate: {uses: evaluate}
  register:
    uses: register
    with: {model_name: sales}
    when: {r2: ">= 0.3"}
"""


def load(text: str) -> Spec:
    spec, problems = from_document(yaml.load("spec.yml", text))
    assert problems == []
    assert spec is not None
    return spec


def test_an_empty_block_is_a_complete_policy() -> None:
    spec = load(f"{SPEC}retrain: {{}}\n")
    assert spec.retrain is not None
    assert read_policy(spec.retrain) == Policy()
    assert list(spec.steps) == ["shard", "train", "evaluate", "compare", "register", "promote"]
    compare, register = spec.steps["compare"], spec.steps["register"]
    assert compare.uses is not None
    assert compare.uses.value == "compare"
    assert {name: value.value for name, value in compare.with_.items()} == {"model_name": "sales"}
    assert register.on_fail is not None
    assert register.on_fail.value == "skip"  # a model that fails the gate is an outcome: the champion stays
    assert list(load(SPEC).steps) == ["shard", "train", "evaluate", "register"]


def test_the_keys_of_promote_are_inputs_of_compare() -> None:
    block = (
        "promote: {metric: rmse, rule: not_worse 0.1, guards: {mae: better, size: not_worse 10}, on: test}"
    )
    spec = load(f"{SPEC}retrain: {{{block}, when: always}}\n")
    assert {name: value.value for name, value in spec.steps["compare"].with_.items()} == {
        "model_name": "sales",
        "metric": "rmse",
        "rule": "not_worse 0.1",
        "guards": "mae: better; size: not_worse 10",
        "split": "test",
    }


def test_the_checks_of_the_feed_are_inputs_of_shard_data() -> None:
    def read(block: str, spec: str = SPEC) -> dict[str, str]:
        inputs = load(f"{spec}retrain: {block}\n").steps["shard"].with_
        return {name: value.value for name, value in inputs.items() if name.startswith("feed_")}

    assert read("{}") == {"feed_stop": "schema, empty, nulls, range"}
    block = "{feed: {stop: [], warn: [drift, labels], threshold: {psi: 0.3, nulls: 0.1}}}"
    assert read(block) == {
        "feed_stop": "none",
        "feed_warn": "drift, labels",
        "feed_thresholds": "psi: 0.3; nulls: 0.1",
    }
    by_hand = SPEC.replace("task: regression}", "task: regression, feed_stop: drift}")
    assert read("{feed: {warn: []}}", by_hand) == {"feed_stop": "drift", "feed_warn": "none"}


def test_steps_that_are_there_are_not_added() -> None:
    steps = "  judge: {uses: compare, with: {rule: newest}}\n  promote: {uses: promote}\n"
    assert list(load(f"{SPEC}{steps}retrain: {{}}\n").steps)[-3:] == ["register", "judge", "promote"]


def test_the_policy_of_notices_and_versions() -> None:
    tell = '{webhook: "${{ secrets.HOOK }}", on: [stale, not_promoted]}'
    spec = load(f"{SPEC}retrain: {{keep: {{models: 3}}, tell: {tell}}}\n")
    assert spec.retrain is not None
    topics: frozenset[Topic] = frozenset({"stale", "not_promoted"})
    assert read_policy(spec.retrain) == Policy(models=3, webhook="HOOK", tell_on=topics)
    spec = load(f'{SPEC}retrain: {{tell: {{webhook: "${{{{secrets.HOOK}}}}"}}}}\n')
    assert spec.retrain is not None
    assert read_policy(spec.retrain).tell_on == {"failed", "stopped", "stale"}


def test_the_address_of_a_webhook_is_neither_taken_nor_shown(tmp_path: Path) -> None:
    (tmp_path / "sales").mkdir()
    block = '{tell: {webhook: "https://hooks.example.com/s3cr3t"}}'
    (tmp_path / "spec.yml").write_text(f"{SPEC}retrain: {block}\n")
    result = check([tmp_path / "spec.yml"])
    assert "`webhook` is `***`, which does not have the required form" in result.render()
    assert "s3cr3t" not in result.render()


def test_the_policy_of_the_data() -> None:
    spec = load(f"{SPEC}retrain: {{data: {{sales: {{window: 2w, by: date, minimum_new_rows: 10}}}}}}\n")
    assert spec.retrain is not None
    policy = read_policy(spec.retrain).data["sales"]
    assert (policy.window, policy.by, policy.minimum_new_rows) == (14 * 86400.0, "date", 10)


@pytest.mark.parametrize(
    ("block", "place", "message"),
    [
        ("{data: {sale: {newest: true}}}", "sale", "`sale` is not an input of the pipeline"),
        ("{data: {epochs: {newest: true}}}", "epochs", "`epochs` is a literal, not data"),
        ("{data: {sales: {window: 3d}}}", "window", "`retrain.data.sales` has `window` but no `by`"),
        ("{promote: {rule: bettr}}", "bettr", "`bettr` is not a rule"),
        (
            "{promote: {guards: {mae: not_worse}}}",
            "not_worse",
            "`not_worse`: the rule `not_worse` takes a number of at least 0",
        ),
        (
            "{promote: {metric: accuracy}}",
            "accuracy",
            "step `evaluate` does not measure `accuracy` for the task regression",
        ),
        ("{promote: {guards: {rmsee: better}}}", "rmsee", "step `evaluate` does not measure `rmsee`"),
        ("{keep: {}}", "keep", "`retrain.keep` has no `models`"),
        ("{tell: {on: [failed]}}", "tell", "`retrain.tell` has no `webhook`"),
        ('{tell: {webhook: "${{secrets.HOOK}}", on: [fail]}}', "fail]", "`on[0]` cannot be `fail`"),
        (
            "{feed: {stop: [empty, nuls]}}",
            "nuls",
            "`stop[1]` cannot be `nuls`",
        ),
        ("{feed: {threshold: {psy: 0.3}}}", "psy", "unknown key `psy` in `retrain.feed.threshold`"),
        ("{feed: {threshold: {psi: -1}}}", "-1", "`psi` is -1 but must be greater than 0"),
    ],
)
def test_faults_have_their_place(tmp_path: Path, block: str, place: str, message: str) -> None:
    text = f"{SPEC.replace('epochs: 3}', 'epochs: 4}')}retrain: {block}\n"
    (tmp_path / "sales").mkdir()
    (tmp_path / "spec.yml").write_text(text)
    found = [error for error in check([tmp_path / "spec.yml"]).errors if error.span.line == 20]
    assert [error.message for error in found] == [message]
    line = text.splitlines()[19]
    assert line[found[0].span.column - 1 :].startswith(place)


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("  evaluate: {uses: evaluate}\n", "`retrain` needs a step that measures the model"),
        (SPEC[SPEC.index("  register:") :], "`retrain` needs a step that registers the model"),
        (
            "    scale: {reference: {batch_size: 16, learning_rate: 0.001}, rows: 100}\n",
            "`retrain` needs a step that trains, and no step has `scale`",
        ),
    ],
)
def test_a_pipeline_without_what_it_needs(gone: str, message: str) -> None:
    _, problems = from_document(yaml.load("spec.yml", f"{SPEC.replace(gone, '')}retrain: {{}}\n"))
    assert [problem.message for problem in problems] == [message]
