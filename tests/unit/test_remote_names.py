"""Which workspace is meant: options, the environment, or `config.json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from worldsize.remote.errors import RemoteError
from worldsize.remote.names import WorkspaceNames, find_workspace

COMPLETE = {
    "AZURE_SUBSCRIPTION_ID": "of-environment",
    "AZURE_RESOURCE_GROUP": "group",
    "AZUREML_WORKSPACE_NAME": "work",
}
FILE = {"subscription_id": "of-file", "resource_group": "group", "workspace_name": "work"}


def write(folder: Path, document: object, name: str = "config.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return folder


def test_a_complete_environment_counts_before_a_file(tmp_path: Path) -> None:
    names = find_workspace(folder=write(tmp_path, FILE), environment=COMPLETE)
    assert names == WorkspaceNames("of-environment", "group", "work")


def test_a_variable_that_is_set_for_another_tool_does_not_change_what_a_file_names(tmp_path: Path) -> None:
    environment = {"AZURE_SUBSCRIPTION_ID": "another"}
    assert find_workspace(folder=write(tmp_path, FILE), environment=environment).subscription == "of-file"


def test_variables_of_jobs_count_first() -> None:
    environment = {**COMPLETE, "AZUREML_ARM_WORKSPACE_NAME": "of-job"}
    assert find_workspace(environment=environment).workspace == "of-job"


def test_an_option_replaces_one_name(tmp_path: Path) -> None:
    names = find_workspace(workspace="other", folder=write(tmp_path, FILE), environment={})
    assert names == WorkspaceNames("of-file", "group", "other")


def test_options_complete_variables(tmp_path: Path) -> None:
    environment = {"AZURE_SUBSCRIPTION_ID": "s"}
    assert find_workspace(None, "g", "w", folder=tmp_path, environment=environment).subscription == "s"


def test_the_file_is_found_upwards_and_in_its_own_folder_first(tmp_path: Path) -> None:
    write(tmp_path, {**FILE, "workspace_name": "hidden"}, ".azureml/config.json")
    below = write(tmp_path / "a" / "b", FILE)
    assert find_workspace(folder=below / "c", environment={}).workspace == "hidden"


def test_the_form_of_earlier_clients_is_read(tmp_path: Path) -> None:
    scope = WorkspaceNames("s", "g", "w").id
    assert find_workspace(folder=write(tmp_path, {"Scope": scope}), environment={}).id == scope


@pytest.mark.parametrize("content", ["{", "[]", '{"subscription_id": 3}', "[" * 100_000, "\x00"])
def test_a_file_that_cannot_be_used_is_one_message(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RemoteError, match=r"config\.json"):
        find_workspace(folder=tmp_path, environment={})


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="`--subscription` and `--workspace` are not given"):
        find_workspace(group="g", folder=tmp_path, environment={})
