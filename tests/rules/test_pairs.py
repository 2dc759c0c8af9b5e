"""The same fault, written in a spec and in a native pipeline: a rule says the same of both.

``## pair/`` of a rule's page holds the two files, ``spec.yml`` and ``pipeline.yml``, and what they need. Each
rule over jobs or steps has one, unless a spec cannot have its fault.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import case_pages
import pytest

import worldsize
from worldsize.azureml.model import AZURE_ML, SPEC
from worldsize.checking import fixing
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.rules import registry

HERE = Path(__file__).parent
PAIRS = [
    case for page in case_pages.read_all(HERE, "WS*.md") for case in page.cases if case.heading == "pair/"
]

# Rules over jobs or steps whose fault a spec cannot have, each with the reason.
SPEC_CANNOT = {
    "pipeline-output-unknown": "an output of a spec says where it comes from",
    "output-written-twice": "an output of a spec comes from one step",
    "output-binding-blanks": "an output of a spec says where it comes from",
    "pipeline-output-unwritten": "a spec is not a component",
    "optional-feeds-required": "a spec is not a component",
    "count-not-positive": "the schema of specs refuses such a count",
    "count-from-wrong-input": "the counts of a spec take no binding",
    "max-instances-below-count": "a step of a spec has no `max_instance_count`",
    "shm-size-invalid": "the schema of specs refuses such a size",
    "variable-name-impossible": "the schema of specs refuses such a name",
    "parallel-without-input-data": "a step of a spec is a command",
    "step-type-disagrees": "a step of a spec has no `type`",
    "trial-without-inputs": "a trial of a spec declares its inputs",
    "job-output-unwritten": "an output of a spec says where it comes from",
    "data-without-path": "an input of a spec without a path is pipeline-input-without-value",
    "compute-without-prefix": "the schema of specs refuses such a `target`",
    "compute-name": "the schema of specs refuses such a `target`",
}

# Rules whose fault a pipeline cannot have, each with the reason.
PIPELINE_CANNOT = {
    "input-not-in-enum": "a pipeline has no built-in components",
    "data-source-missing": "a pipeline has no built-in components",
    "data-format-wrong": "a pipeline has no built-in components",
    "data-column-missing": "a pipeline has no built-in components",
    "data-row-invalid": "a pipeline has no built-in components",
    "label-not-a-class": "a pipeline has no built-in components",
    "label-not-categorical": "a pipeline has no built-in components",
    "class-doubtful": "a pipeline has no built-in components",
    "column-tells-label": "a pipeline has no built-in components",
    "gate-constant-passes": "a pipeline has no built-in components",
    "model-not-for-data": "a pipeline has no built-in components",
    "picture-invalid": "a pipeline has no built-in components",
    "data-too-few-rows": "a pipeline has no built-in components",
    "early-stopping-without-validation": "a pipeline has no built-in components",
    "best-metric-unknown": "a pipeline has no built-in components",
    "best-without-validation": "a pipeline has no built-in components",
    "validation-after-training": "a pipeline has no built-in components",
    "low-priority-costs-more": "the estimate needs the plan of a spec",
}

EXTRA = ["WS225"]  # whether Azure still adds a VM size: a spec describes its clusters itself

# What a sentence about a spec says, and the same sentence about a pipeline.
WORDS = [
    (f"`{SPEC.inputs}:`", f"`{AZURE_ML.inputs}:`"),
    (SPEC.default_compute, AZURE_ML.default_compute),
    (SPEC.timeout, AZURE_ML.timeout),
    ("`${{plan.NAME}}` or ", ""),  # only a spec has a plan
    ("under `inputs:` of the spec", "under `inputs:` of the pipeline"),
]


def name(pair: case_pages.Case) -> str:
    return pair.page.stem


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


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_a_rule_says_the_same_of_a_spec_and_of_a_pipeline(
    pair: case_pages.Case, written: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(pair.page) / "pair")
    of_pipeline = [say(each) for each in worldsize.check("pipeline.yml", ignore=EXTRA).diagnostics]
    of_spec = [say(each) for each in worldsize.check("spec.yml", ignore=EXTRA).diagnostics]
    assert of_spec == of_pipeline
    assert {each["code"] for each in of_spec} == {name(pair).partition("-")[0]}, "one cause"


@pytest.mark.parametrize(
    "case", ["WS612-input-unknown", "WS622-binding-unknown-step", "WS620-binding-malformed"]
)
def test_a_spec_is_mended_as_a_pipeline_is(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case_pages.write(case_pages.read(HERE / f"{case}.md").files, tmp_path)
    monkeypatch.chdir(tmp_path / "pair")
    for path in ("pipeline.yml", "spec.yml"):
        result = fixing.fix([path], unsafe=True)
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
    scale = "{reference: {batch_size: 8, learning_rate: 1}}"
    train = f"  t: {{uses: train_ddp, with: {{epochs: 2, mdoel: cnn}}, scale: {scale}}}\n"
    Path("spec.yml").write_text((HEAD + train).replace("Standard_D16s_v5", "Standard_D16s_v55"))
    assert {each.slug for each in worldsize.check("spec.yml").errors} == {
        "process-count-unknown",
        "input-unknown",
    }


def test_every_rule_over_the_graph_has_a_pair_or_a_reason() -> None:
    over_the_graph = {rule.slug for rule in registry.rules() if {"Job", "Launch", "Step"} & set(rule.on)}
    paired = {name(pair).partition("-")[2] for pair in PAIRS}
    assert over_the_graph - paired == {*SPEC_CANNOT, *PIPELINE_CANNOT}
