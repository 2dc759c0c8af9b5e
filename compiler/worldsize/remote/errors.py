"""What can be wrong with a workspace or a request to it, as one sentence and a help."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from worldsize.base.problem import HelpfulError

MISSING = "Azure's client is not installed"
INSTALL = "pip install 'worldsize[azure]'"
_LOG_IN = (
    "log in with `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service"
    " principal"
)
_ROLE = "ask for the role `AzureML Data Scientist` on the workspace"
_QUOTA = "`worldsize catalogue --refresh` shows the quota of each VM family; ask for more in the Azure portal"
_NOT_FOUND = frozenset({"ResourceNotFound", "ResourceGroupNotFound", "SubscriptionNotFound"})
_TAKEN = re.compile(r"\bjob\b.*\b(?:already exists|exists already)\b", re.IGNORECASE)
_RENAME = "add `--name NEW`, or remove `name:` from the file: each job then gets a name of its own"
_ABSENT = re.compile(r"\(x\) Asset (?P<name>[\w.-]+) does not exist in workspace (?P<workspace>\w[\w-]*)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class RemoteError(HelpfulError):
    """A workspace cannot be found, reached or used. ``help`` says what to do."""


@contextlib.contextmanager
def explain_errors(workspace: str = "the workspace") -> Iterator[None]:
    """Turn the exceptions of Azure's clients into :class:`RemoteError`.

    ``workspace`` is what the messages call the workspace.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "azure":
            raise
        raise RemoteError(f"{MISSING}: {error}", INSTALL) from error
    except Exception as error:
        explained = _explain(error, workspace)
        if explained is None:
            raise
        raise explained from error


@contextlib.contextmanager
def without_refusals() -> Iterator[None]:
    """End the block where a service refuses a request: what was asked for is left out."""
    from azure.core.exceptions import HttpResponseError  # only what asks needs it

    with contextlib.suppress(HttpResponseError):
        yield


def _explain(error: Exception, workspace: str) -> RemoteError | None:
    """The error in our words; None for an exception that is not of Azure's clients."""
    from azure.core import exceptions as core  # only a failure needs it

    if isinstance(error, core.ClientAuthenticationError):
        if error.status_code in (401, 403):
            return RemoteError(f"{workspace} refuses these credentials: {_read_message(error)}", _ROLE)
        return RemoteError("there are no credentials for Azure", _LOG_IN)
    if isinstance(error, core.HttpResponseError):
        return _explain_answer(error, workspace)
    if isinstance(error, core.ServiceRequestError | core.ServiceResponseError):
        reason = str(error).partition("\n")[0]
        return RemoteError(f"Azure cannot be reached: {reason}", "check the network and proxy")
    if type(error).__module__.startswith(("azure.", "marshmallow.")):  # of azure-ai-ml, for what it validates
        return _explain_invalid(_clean(str(getattr(error, "message", None) or error)))
    return None


def _explain_invalid(message: str) -> RemoteError:
    """What azure-ai-ml says of a job itself; an asset that it looked up for a label and did not find."""
    absent = _ABSENT.search(message)
    if absent is None:
        return RemoteError(message)
    name, path = absent["name"], f"./{absent['name']}"
    return RemoteError(
        f"workspace `{absent['workspace']}` has no asset `{name}`",
        f"register it: data by `az ml data create --name {name} --type uri_folder --path {path}`, or in"
        f' Python by `client.data.create_or_update(Data(name="{name}", type="uri_folder", path="{path}"))`,'
        " with the path of your file or folder; a component by `az ml component create -f component.yml`",
    )


def _explain_answer(error: Any, workspace: str) -> RemoteError:
    message, code = _read_message(error), str(getattr(getattr(error, "error", None), "code", None) or "")
    if "quota" in code.lower() or "quota" in message.lower():
        return RemoteError(message, _QUOTA)
    if error.status_code in (401, 403):
        return RemoteError(f"{workspace} refuses these credentials: {message}", _ROLE)
    if error.status_code in (400, 409) and _TAKEN.search(message):
        return RemoteError(message, _RENAME)
    if error.status_code == 404 and code in _NOT_FOUND and "/jobs/" not in message:
        names = "`--subscription`, `--resource-group` and `--workspace` choose another workspace"
        return RemoteError(message, names)
    return RemoteError(message or f"{workspace} answered with status {error.status_code}")


def _read_message(error: Any) -> str:
    """The message of an answer of Azure, without what azure-core adds to it."""
    inner = getattr(error, "error", None)
    return _clean(str(getattr(inner, "message", None) or getattr(error, "message", None) or error))


def _clean(text: str) -> str:
    return "\n".join(line.rstrip() for line in _COLOUR.sub("", text).strip().splitlines())
