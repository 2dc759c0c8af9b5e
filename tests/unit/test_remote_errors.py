"""What Azure's clients raise, as one sentence and what to do."""

from __future__ import annotations

import pytest

from worldsize.remote.errors import RemoteError, explain_errors

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
