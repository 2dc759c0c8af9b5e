"""The same fault, written in a spec and in a native pipeline: a rule says the same of both.

``WS*/pair/`` holds the two files, ``spec.yml`` and ``pipeline.yml``, and what they need. Every rule over jobs
or steps has such a folder, unless a spec cannot have its fault.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import worldsize
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
    "count-not-positive": "the schema of specs refuses such a count",
    "count-from-wrong-input": "the counts of a spec take no binding",
    "max-instances-below-count": "a step of a spec has no `max_instance_count`",
    "shm-size-invalid": "the schema of specs refuses such a size",
    "variable-name-impossible": "the schema of specs refuses such a name",
    "parallel-without-input-data": "a step of a spec is a command",
    "search-space-empty": "a step of a spec is a command",
    "grid-needs-choice": "a step of a spec is a command",
    "compute-name": "the schema of specs refuses such a `target`",
    "compute-without-prefix": "the schema of specs refuses such a `target`",
}

# Rules whose fault a pipeline cannot have, each with the reason.
PIPELINE_CANNOT = {
    "memory-exceeded": "the estimate needs the plan of a spec",
    "memory-nearly-full": "the estimate needs the plan of a spec",
}

EXTRA = ["WS225"]  # whether Azure still adds a VM size: a spec describes its clusters itself

# Rules that still see one of the two files only. To become empty.
PENDING = {
    "step-needs-compute",
    "data-without-version",
    "data-is-folder",
    "data-is-file",
    "mltable-missing",
    "input-missing",
    "input-unknown",
    "binding-malformed",
    "binding-unknown-scope",
    "binding-unknown-step",
    "graph-cycle",
    "folder-feeds-model",
    "environment-variable-not-text",
    "binding-unknown-output",
    "binding-in-text",
}


def name(pair: Path) -> str:
    return pair.parent.name


def slug(pair: Path) -> str:
    return name(pair).partition("-")[2]


def in_words_of_azure_ml(text: str | None) -> str | None:
    """A sentence about a spec with the words that the same sentence about a pipeline has."""
    if text is None:
        return None
    for key in AZURE_ML.__struct_fields__:
        of_spec, of_pipeline = getattr(SPEC, key), getattr(AZURE_ML, key)
        words = [(of_spec, of_pipeline)] if isinstance(of_spec, str) else zip(of_spec, of_pipeline, strict=True)
        for ours, theirs in words:
            quoted = " " in ours
            text = text.replace(ours if quoted else f"`{ours}:`", theirs if quoted else f"`{theirs}:`")
            text = text.replace(f"${{{{{ours}}}}}", f"${{{{{theirs}}}}}")
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
    of_pipeline = [say(each) for each in worldsize.check("pipeline.yml", ignore=EXTRA).diagnostics]
    of_spec = [say(each) for each in worldsize.check("spec.yml", ignore=EXTRA).diagnostics]
    assert of_spec == of_pipeline
    assert {each["code"] for each in of_spec} == {name(pair).partition("-")[0]}, "one cause"


def test_every_rule_over_the_graph_has_a_pair_or_a_reason() -> None:
    over_the_graph = {rule.slug for rule in registry.rules() if {"Job", "Step"} & set(rule.on)}
    paired = {slug(pair) for pair in PAIRS}
    assert over_the_graph - paired - PENDING == {*SPEC_CANNOT, *PIPELINE_CANNOT}
