"""Which workspace is meant: options, the environment, or `config.json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from worldsize.remote.errors import RemoteError, explain_errors
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


core = pytest.importorskip("azure.core.exceptions")
LABELLED = """\
1) Resource was not found.

Details:

\x1b[31m(x) Asset houses does not exist in workspace local.\x1b[39m

Resolutions:
1) Double-check that the resource has been specified correctly and that you have access to it.
"""


def explain(error: Exception) -> RemoteError:
    with pytest.raises(RemoteError) as caught, explain_errors():
        raise error
    return caught.value


def answered(status: int, message: str) -> Exception:
    error = core.HttpResponseError(message=message)
    error.status_code = status
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (409, "A job named `calm_rice` exists already."),
        (
            400,
            "A job with this name already exists. To create a new job, use a different name.",
        ),
    ],
)
def test_a_name_that_is_taken_has_two_remedies(status: int, message: str) -> None:
    explained = explain(answered(status, message))
    assert str(explained) == message
    assert explained.help is not None
    assert explained.help.startswith("add `--name NEW`, or remove `name:` from the file")


def test_another_conflict_gets_no_advice_on_names() -> None:
    assert explain(answered(409, "The cluster already exists.")).help is None


def test_an_asset_that_a_label_does_not_find_is_to_be_registered() -> None:
    exceptions = pytest.importorskip("azure.ai.ml.exceptions")
    error = exceptions.AssetException(
        message=LABELLED,
        no_personal_data_message="",
        target=exceptions.ErrorTarget.DATA,
        error_category=exceptions.ErrorCategory.USER_ERROR,
    )
    explained = explain(error)
    assert str(explained) == "workspace `local` has no asset `houses`"
    assert "`az ml data create --name houses --type uri_folder --path ./houses`" in str(explained.help)
