"""The same fault, written in a spec and in a native pipeline: a rule says the same of both.

``WS*/pair/`` holds the two files, ``spec.yml`` and ``pipeline.yml``, and what they need. Every rule over jobs
or steps has such a folder, unless a spec cannot have its fault.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import worldsize
from worldsize import fixing
from worldsize.azureml.model import AZURE_ML, SPEC
from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.rules import registry

HERE = Path(__file__).parent
PAIRS = sorted(HERE.glob("WS*/pair"))

# Rules over jobs or steps whose fault a spec cannot have, each with the reason.
SPEC_CANNOT = {
    "pipeline-input-empty": "a spec has no inputs of its own",
    "pipeline-input-unknown": "a spec has no inputs of its own; `${{parent.inputs.x}}` is binding-unknown-scope",
    "pipeline-output-unknown": "a spec has no outputs of its own",
    "output-written-twice": "a spec has no outputs of its own",
    "output-binding-blanks": "a spec has no outputs of its own",
    "pipeline-output-unwritten": "a spec is not a component",
    "optional-feeds-required": "a spec is not a component",
    "parallel-without-input-data": "a step of a spec is a command",
    "search-space-empty": "a step of a spec is a command",
    "grid-needs-choice": "a step of a spec is a command",
    "compute-name": "the schema of specs refuses such a `target`",
    "compute-without-prefix": "the schema of specs refuses such a `target`",
}

# Rules that still see one of the two files only. To become empty.
PENDING = {
    "vm-size-unknown",
    "vm-size-retired",
    "processes-exceed-gpus",
    "processes-below-gpus",
    "worker-count-disagrees",
    "instance-count-exceeds-max",
    "vm-size-retiring",
    "workers-below-instances",
    "count-not-positive",
    "count-from-wrong-input",
    "max-instances-below-count",
    "mpirun-in-mpi-job",
    "launcher-inside-launcher",
    "instances-without-distribution",
    "parameter-servers-unused",
    "parameter-servers-share-instances",
    "mpi-image-without-mpi",
    "nccl-on-cpu",
    "infiniband-disabled",
    "instances-without-infiniband",
    "shm-size-invalid",
    "shm-size-small",
    "ranks-share-file",
    "degree-does-not-divide",
    "tensor-parallel-across-instances",
    "gpu-without-kernels",
    "cpu-build-on-gpu-size",
    "cuda-driver-too-old",
    "image-for-other-processor",
    "world-size-flag-disagrees",
    "batch-flags-disagree",
    "deepspeed-batch-disagrees",
    "deepspeed-key-unknown",
    "deepspeed-value-invalid",
    "zero-stage-disagrees",
    "deepspeed-batch-missing",
    "deepspeed-key-refused",
    "deepspeed-wrong-type",
    "deepspeed-text-for-value",
    "deepspeed-auto-left",
    "deepspeed-made-twice",
    "deepspeed-block-unused",
    "deepspeed-stage-refused",
    "deepspeed-offload-ignored",
    "deepspeed-precision-conflict",
    "deepspeed-loss-scale-invalid",
    "deepspeed-offload-path",
    "deepspeed-key-deprecated",
    "deepspeed-key-removed",
    "deepspeed-optimizer-refused",
    "deepspeed-schedule-refused",
    "deepspeed-plan-disagrees",
    "deepspeed-not-json",
    "deepspeed-json-lenient",
    "deepspeed-key-twice",
    "deepspeed-config-missing",
    "learning-rate-in-two-places",
    "multi-node-without-timeout",
    "checkpoints-in-outputs",
    "low-priority-without-resume",
    "text-splits-in-shell",
    "text-runs-in-shell",
    "variable-name-impossible",
    "environment-unpinned",
    "component-unpinned",
}

# What a sentence about a spec says, and the same sentence about a pipeline.
WORDS = [
    (f"`{SPEC.inputs}:`", f"`{AZURE_ML.inputs}:`"),
    (SPEC.default_compute, AZURE_ML.default_compute),
    *zip(SPEC.bindings, AZURE_ML.bindings, strict=True),
]


def name(pair: Path) -> str:
    return pair.parent.name


def slug(pair: Path) -> str:
    return name(pair).partition("-")[2]


def in_words_of_azure_ml(text: str | None) -> str | None:
    """A sentence about a spec with the words that the same sentence about a pipeline has."""
    if text is None:
        return None
    for ours, theirs in WORDS:
        text = text.replace(ours, theirs)
    return text


def say(diagnostic: Diagnostic) -> dict[str, Any]:
    """What a reader sees, without the places."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": in_words_of_azure_ml(diagnostic.message),
        "help": in_words_of_azure_ml(diagnostic.help),
        "fix": diagnostic.fix and diagnostic.fix.replacement,
        "related": [in_words_of_azure_ml(related.message) for related in diagnostic.related],
    }


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if slug(pair) not in PENDING], ids=name)
def test_a_rule_says_the_same_of_a_spec_and_of_a_pipeline(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pair)
    of_pipeline = [say(each) for each in worldsize.check("pipeline.yml").diagnostics]
    of_spec = [say(each) for each in worldsize.check("spec.yml").diagnostics]
    assert of_spec == of_pipeline
    assert {each["code"] for each in of_spec} == {name(pair).partition("-")[0]}, "one cause"


@pytest.mark.parametrize("case", ["WS612-input-unknown", "WS622-binding-unknown-step", "WS620-binding-malformed"])
def test_a_spec_is_mended_as_a_pipeline_is(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(HERE / case / "pair", tmp_path / "pair")
    monkeypatch.chdir(tmp_path / "pair")
    for path in ("pipeline.yml", "spec.yml"):
        result = fixing.fix([path])
        assert result.report.fixed == 1
        assert not result.report.diagnostics


HEAD = """\
name: digits
compute:
  cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
steps:
  shard: {uses: shard_data, with: {source: "builtin:digits"}}
"""
ONE_CAUSE = {
    # an unknown step: no cycle, no missing input, no type
    "binding-unknown-step": "  e: {uses: evaluate, with: {model: '${{parent.jobs.ee.outputs.model}}'}}\n",
    "binding-unknown-output": "  e: {uses: evaluate, with: {model: '${{parent.jobs.shard.outputs.m}}'}}\n",
    # a misspelt input: the one that was meant is not missing as well
    "input-unknown": "  e: {uses: evaluate, with: {modle: 'azureml:m:1'}}\n",
    # braces that are wrong: no path that does not exist
    "binding-malformed": "  e: {uses: evaluate, with: {model: '${parent.jobs.shard.outputs.m}'}}\n",
}


@pytest.mark.parametrize("expected", ONE_CAUSE)
def test_one_cause_in_a_spec_is_one_diagnostic(
    expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yml").write_text(HEAD + ONE_CAUSE[expected])
    assert [each.slug for each in worldsize.check("spec.yml").diagnostics] == [expected]


def test_a_spec_that_cannot_be_planned_is_still_judged_as_a_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train = "  t: {uses: train_ddp, with: {epochs: 2, mdoel: cnn}, scale: {reference: {batch_size: 8, learning_rate: 1}}}\n"
    Path("spec.yml").write_text((HEAD + train).replace("Standard_D16s_v5", "Standard_D16s_v55"))
    assert {each.slug for each in worldsize.check("spec.yml").errors} == {"process-count-unknown", "input-unknown"}


def test_every_rule_over_the_graph_has_a_pair_or_a_reason() -> None:
    over_the_graph = {rule.slug for rule in registry.rules() if {"Job", "Step"} & set(rule.on)}
    paired = {slug(pair) for pair in PAIRS}
    assert over_the_graph - paired - PENDING == set(SPEC_CANNOT)
