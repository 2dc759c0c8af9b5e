"""`worldsize submit` compares steps with the registered components that they name."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from worldsize.documents.errors import SpecError
from worldsize.remote.targets import Target, check_registered, fill_components, load_target
from worldsize.running.model.errors import RunError

TRAIN = {
    "type": "command",
    "inputs": {
        "rows": {"type": "uri_folder"},
        "epochs": {"type": "integer", "default": "3"},
        "note": {"type": "string", "optional": "True"},
        "seed": {"type": "integer", "optional": False},
    },
    "outputs": {"model": {"type": "uri_folder"}},
}
PIPELINE = """\
    $schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
    type: pipeline
    settings: {default_compute: azureml:cpu-cluster}
    jobs:
      train:
        type: command
        component: azureml:train@latest
        inputs:
          rows: {type: uri_folder, path: azureml:digits:1}
          seed: 1
      report:
        type: command
        component: azureml:report:2
        inputs: {model: "${{parent.jobs.train.outputs.model}}"}
    """


class Workspace:
    """What a workspace answers to questions about components."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        self._components, self.asked = components, list[str]()

    def manage(self, path: str) -> Any:
        from azure.core.exceptions import ResourceNotFoundError

        self.asked.append(path)
        name, version = path.removeprefix("/components/").split("/versions/")
        if (name, version) != ("train", "7") or "train" not in self._components:
            raise ResourceNotFoundError(path)
        return {"properties": {"componentSpec": self._components["train"]}}

    def list(self, path: str, **options: str) -> Iterator[Any]:
        self.asked.append(path)
        assert options == {"$orderBy": "createdtime desc", "$top": "1"}
        name = path.removeprefix("/components/").removesuffix("/versions")
        if name in self._components:
            yield {"properties": {"componentSpec": self._components[name]}}


def check(text: str, components: Mapping[str, Any]) -> list[str]:
    """The errors, with their places."""
    Path("pipeline.yml").write_text(textwrap.dedent(text), encoding="utf-8")
    target = load_target(Path("pipeline.yml"), Path("out"), {})
    try:
        check_registered(Workspace(components), target)  # type: ignore[arg-type]
    except SpecError as error:
        return [f"{each.span.line}: {each.code} {each.message} ({each.help})" for each in error.diagnostics]
    return []


def load_set(workspace: Workspace, **settings: str) -> Target:
    """The pipeline with other inputs, as ``submit --set`` reads it."""
    Path("pipeline.yml").write_text(textwrap.dedent(PIPELINE), encoding="utf-8")
    named = {name.replace("__", "."): text for name, text in settings.items()}
    fill = partial(fill_components, workspace)  # type: ignore[arg-type]
    return load_target(Path("pipeline.yml"), Path("out"), named, fill=fill)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("azure.core")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "components",
    [
        {"train": TRAIN},
        {},  # nothing is known
        {"train": {"type": "command"} | {"inputs": TRAIN["inputs"], "outputs": TRAIN["outputs"]}},
        {"train": "damaged"},
        {"train": {"inputs": {}}},
    ],
)
def test_what_fits_or_is_unknown_passes(components: Mapping[str, Any]) -> None:
    assert check(PIPELINE, components) == []


def test_an_input_that_the_component_lacks_is_refused() -> None:
    assert check(PIPELINE.replace("seed: 1", "seed: 1\n          epoch: 4"), {"train": TRAIN}) == [
        "11: WS612 `azureml:train@latest` has no input `epoch` (did you mean `epochs`?)"
    ]


def test_a_required_input_is_asked_for() -> None:
    (found,) = check(PIPELINE.replace("seed: 1", "note: x"), {"train": TRAIN})
    assert found.startswith("7: WS610 step `train` needs input `seed`, an integer without a default (add")


def test_an_output_that_the_component_lacks_is_refused() -> None:
    assert check(PIPELINE.replace("outputs.model", "outputs.modle"), {"train": TRAIN}) == [
        "14: WS623 step `train` has no output `modle` (did you mean `model`?)"
    ]


def test_a_version_is_read_once() -> None:
    text = PIPELINE.replace("train@latest", "train:7").replace("azureml:report:2", "azureml:train:7")
    Path("pipeline.yml").write_text(textwrap.dedent(text), encoding="utf-8")
    workspace = Workspace({"train": TRAIN})
    with pytest.raises(SpecError) as caught:
        check_registered(workspace, load_target(Path("pipeline.yml"), Path("out"), {}))  # type: ignore[arg-type]
    assert workspace.asked == ["/components/train/versions/7"]
    assert {each.code for each in caught.value.diagnostics} == {"WS610", "WS612"}


def test_components_of_registries_are_left_to_the_service() -> None:
    reference = "azureml://registries/azureml/components/train/versions/7"
    assert check(PIPELINE.replace("azureml:train@latest", reference), {"train": TRAIN}) == []


def test_inputs_that_only_the_workspace_knows_can_be_set() -> None:
    workspace = Workspace({"train": TRAIN})
    target = load_set(workspace, train__epochs="5", train__note="007", train__rows="azureml:digits:2")
    assert target.overrides == [
        {"jobs.train.inputs.epochs": 5},
        {"jobs.train.inputs.note": "007"},
        {"jobs.train.inputs.rows.path": "azureml:digits:2"},
    ]
    check_registered(workspace, target)  # type: ignore[arg-type]


def test_data_of_an_input_that_the_file_does_not_write_gets_its_type() -> None:
    trained = {**TRAIN, "inputs": {**TRAIN["inputs"], "extra": {"type": "uri_file", "optional": "True"}}}
    target = load_set(Workspace({"train": trained}), train__extra="azureml:rows:1")
    assert target.overrides == [
        {"jobs.train.inputs.extra.path": "azureml:rows:1", "jobs.train.inputs.extra.type": "uri_file"}
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("train__epoch", "5", "no input `train.epoch`"),
        ("train__epochs", "many", "`many`"),
        ("report__name", "x", "of `azureml:report:2` only the inputs that the file gives are known here"),
    ],
)
def test_what_the_component_does_not_take_cannot_be_set(name: str, value: str, message: str) -> None:
    with pytest.raises(RunError, match=message) as caught:
        load_set(Workspace({"train": TRAIN}), **{name: value})
    (problem,) = caught.value.problems
    if name == "train__epoch":
        assert problem.help == "did you mean `train.epochs`?"


def test_a_step_with_what_was_set_is_checked() -> None:
    workspace = Workspace({"train": TRAIN})
    Path("pipeline.yml").write_text(textwrap.dedent(PIPELINE).replace("seed: 1", "note: x"), encoding="utf-8")
    fill = partial(fill_components, workspace)  # type: ignore[arg-type]
    target = load_target(Path("pipeline.yml"), Path("out"), {"train.epochs": "5"}, fill=fill)
    with pytest.raises(SpecError):  # `seed` is missing
        check_registered(workspace, target)  # type: ignore[arg-type]
    target = load_target(Path("pipeline.yml"), Path("out"), {"train.seed": "5"}, fill=fill)
    check_registered(workspace, target)  # type: ignore[arg-type]
