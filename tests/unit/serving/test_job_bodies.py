"""Bodies of jobs that azure-ai-ml sent, and the YAML that they become.

``bodies/<name>.json`` has the properties of a job with the components and environments that it names, as the
client stored them; ``--update-golden`` rewrites the expectations beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from worldsize.azureml import yaml_dump
from worldsize.checking import check
from worldsize.serving.errors import ServiceError
from worldsize.serving.jobs.translate.body import Body, References
from worldsize.serving.jobs.translate.job import job_type, translate_job, write_files

BODIES = Path(__file__).parent / "bodies"
NAMES = sorted(path.stem for path in BODIES.glob("*.json"))


class Stored(References):
    """References to what the client stored before it submitted the job."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self._document = document

    def find_properties(self, kind: str, reference: str) -> Mapping[str, Any]:
        stored = self._document.get(kind, {}).get(reference)
        return {"componentSpec": stored} if kind == "components" else stored or {}

    def find_path(self, reference: str) -> Path | None:
        return Path("/data") if "/paths/" in reference else None

    def find_address(self, reference: str) -> str | None:
        return "https://example.com/x.csv" if reference == "azureml:web:1" else None

    def find_size(self, compute: str) -> Mapping[str, Any] | None:
        return (
            {"instance_type": "Standard_NC96ads_A100_v4", "max_instances": 4}
            if compute == "gpu-cluster"
            else None
        )


def translate(properties: Mapping[str, Any], **stored: Any) -> tuple[dict[str, Any], References]:
    references = Stored(stored)
    return translate_job(properties, references), references


@pytest.mark.parametrize("name", NAMES)
def test_bodies_become_yaml(name: str, tmp_path: Path, *, update_golden: bool) -> None:
    document = json.loads((BODIES / f"{name}.json").read_text())
    files, references = translate(document.pop("properties"), **document)
    text = "".join(f"# {path}\n{yaml_dump.dump(each)}\n" for path, each in files.items())
    expected = BODIES / f"{name}.txt"
    if update_golden:
        expected.write_text(text)
    assert text == expected.read_text()
    # The checker finds no error in what the service accepts.
    path = write_files(files, tmp_path / "job", {"compute": references.computes})
    assert [each.message for each in check([path]).errors] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jobType": "AutoML"}, "The job is an AutoML job, whose models are chosen"),
        ({"jobType": None}, "The job is of type ``; `worldsize serve` runs Command, Pipeline, Sweep jobs"),
        ({"command": {"a": 1}}, "`properties.command` is not a text"),
        ({"inputs": ["a"]}, "`properties.inputs` is not an object"),
        ({"inputs": {"a": {"jobInputType": "cube"}}}, "`properties.inputs.a` is of type `cube`"),
        ({"inputs": {"a": {"jobInputType": "uri_file"}}}, "`properties.inputs.a` has no `uri`"),
        ({"limits": {"timeout": "an hour"}}, "is not a duration"),
        ({"distribution": {"distributionType": "Slurm"}}, "is of type `Slurm`"),
        ({"resources": {"instanceCount": [2]}}, "`properties.resources.instanceCount` is not a number"),
        ({"jobType": "Pipeline", "jobs": {"a": {}}}, "`properties.jobs.a` has no `componentId`"),
        ({"jobType": "Pipeline", "jobs": {"a": {"type": "spark"}}}, "is a Spark job"),
        ({"jobType": "Sweep", "searchSpace": {"x": 3}}, "`properties.searchSpace.x` is not a distribution"),
        ({"jobType": "Sweep", "searchSpace": {"x": ["cosine", [1]]}}, "that is known: `cosine`"),
    ],
)  # fmt: skip
def test_wrong_bodies_are_refused_in_words(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ServiceError) as caught:
        translate({"jobType": "Command", "command": "true", **changes})
    assert caught.value.status == 400
    assert message in str(caught.value)


def test_a_component_that_contains_itself_is_refused() -> None:
    node = {"type": "pipeline", "componentId": "azureml:loop:1"}
    component = {"type": "pipeline", "jobs": {"again": node}}
    with pytest.raises(ServiceError, match="contains itself"):
        translate({"jobType": "Pipeline", "jobs": {"first": node}}, components={"azureml:loop:1": component})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT90S", 90), ("PT1H30M", 5400), ("P1DT1S", 86401), ("PT0.5S", 0), (300, 300), ("300", 300)],
)
def test_durations_are_read(text: object, seconds: int) -> None:
    assert Body({"timeout": text}).seconds("timeout") == seconds


def test_types_are_known_in_any_case() -> None:
    assert job_type({"jobType": "pipeline"}) == "Pipeline"


def test_a_sweep_s_settings_are_those_of_yaml() -> None:
    files, _ = translate(
        {
            "jobType": "Sweep",
            "searchSpace": {
                "a": ["quniform", [1, 9, 2]],
                "b": ["choice", [["x", "y"]]],
                "c": ["choice", [1, 2]],
                "d": ["randint", [3]],
            },
            "samplingAlgorithm": {"samplingAlgorithmType": "Random", "rule": "Sobol", "seed": 3},
            "objective": {"goal": "Maximize", "primaryMetric": "acc"},
            "limits": {"maxTotalTrials": 4, "maxConcurrentTrials": 2, "trialTimeout": "PT10M"},
            "earlyTermination": {"policyType": "TruncationSelection", "truncationPercentage": 20},
            "trial": {"command": "true", "environmentId": "azureml:e:1", "resources": {"instanceCount": 2}},
        }
    )
    job = files["pipeline.yml"]
    assert job["search_space"] == {
        "a": {"type": "quniform", "min_value": 1, "max_value": 9, "q": 2},
        "b": {"type": "choice", "values": ["x", "y"]},
        "c": {"type": "choice", "values": [1, 2]},
        "d": {"type": "randint", "upper": 3},
    }
    assert job["sampling_algorithm"] == {"type": "random", "seed": 3, "rule": "Sobol"}
    assert job["objective"] == {"goal": "maximize", "primary_metric": "acc"}
    assert job["limits"] == {"max_total_trials": 4, "max_concurrent_trials": 2, "trial_timeout": 600}
    assert job["early_termination"] == {"type": "truncation_selection", "truncation_percentage": 20}
    assert job["trial"]["resources"] == {"instance_count": 2}
