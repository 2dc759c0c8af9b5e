"""The environment variables by which unchanged clients find the workspace.

By the proxy, the default, clients keep Azure's host names. Without it they are told this server's by
``ARM_CLOUD_METADATA_URL``, which is enough for azure-ai-ml and what it calls, not for code that names Azure's
hosts itself. A command without a ``config.json``, which ``MLClient.from_config()`` looks for, is lent one.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.running.model.folder import ignore_in_git
from worldsize.serving.front.certificates import BUNDLE_VARIABLES
from worldsize.serving.front.guard import PROXY_USER, issue_token, secret_text
from worldsize.serving.workspace import ACCOUNT, API_HOST, BLOB_HOST, TENANT, Endpoints, Scope, Workspace

LOOPBACK = ("127.0.0.1", "localhost")  # no `::1`: the network stack of azureml-fsspec reads a port in it
# These would send a client elsewhere: another kind of managed identity, a chain without one, another cloud.
REMOVED = (
    "IDENTITY_SERVER_THUMBPRINT",
    "AZURE_TOKEN_CREDENTIALS",
    "AZUREML_CURRENT_CLOUD",
    "AZUREML_DEV_URL_MFE",
)


def make_endpoints(page: str, port: int, *, proxy: bool) -> Endpoints:
    """The hosts that the server's answers name, by its page's address and its port."""
    if proxy:
        return Endpoints(page)
    base = f"https://localhost:{port}"
    return Endpoints(page, base, f"{base}/blob/{BLOB_HOST}", f"localhost:{port}/blob/{ACCOUNT}")


def client_variables(
    workspace: Workspace, port: int, bundle: Path, environment: Mapping[str, str], *, proxy: bool
) -> dict[str, str | None]:
    """The variables of a client; ``None`` for one that must not be set.

    ``bundle`` has the certificate authorities to trust, ``environment`` the user's own variables.
    """
    scope = workspace.scope
    variables: dict[str, str | None] = dict.fromkeys(REMOVED)
    variables |= {
        "IDENTITY_ENDPOINT": f"http://127.0.0.1:{port}/msi/token",
        "IDENTITY_HEADER": secret_text(workspace, "identity"),
        "AZURE_SUBSCRIPTION_ID": scope.subscription,
        "AZURE_RESOURCE_GROUP": scope.group,
        "AZURE_TENANT_ID": TENANT,
        "AZUREML_ARM_SUBSCRIPTION": scope.subscription,
        "AZUREML_ARM_RESOURCEGROUP": scope.group,
        "AZUREML_ARM_WORKSPACE_NAME": scope.workspace,
        **dict.fromkeys(BUNDLE_VARIABLES, str(bundle)),
    }
    variables |= _tracking_variables(workspace, port, proxy=proxy)
    variables |= _proxy_variables(workspace, port) if proxy else _metadata_variables(port, environment)
    return variables


def _tracking_variables(workspace: Workspace, port: int, *, proxy: bool) -> dict[str, str | None]:
    """MLflow's address: with azureml-mlflow as on a compute instance, else the server's own with a token."""
    if _has_mlflow_plugin():
        host = API_HOST if proxy else f"localhost:{port}"
        return {"MLFLOW_TRACKING_URI": f"azureml://{host}/mlflow/v2.0{workspace.scope.id}"}
    return {
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}/mlflow/v2.0",
        "MLFLOW_TRACKING_TOKEN": issue_token(workspace, f"https://{API_HOST}"),
    }


def mlflow_server_variables(workspace: Workspace) -> dict[str, str]:
    """How a step whose MLflow is not that of Worldsize reaches the workspace's server."""
    return {
        "WORLDSIZE_MLFLOW_SERVER": f"{workspace.endpoints.page}/mlflow/v2.0",
        "WORLDSIZE_MLFLOW_TOKEN": issue_token(workspace, f"https://{API_HOST}"),
    }


def _proxy_variables(workspace: Workspace, port: int) -> dict[str, str | None]:
    """All hosts but loopback through the proxy, which heeds the user's own exceptions for other hosts."""
    address = f"http://{PROXY_USER}:{secret_text(workspace, 'proxy')}@127.0.0.1:{port}"
    exceptions = ",".join(LOOPBACK)
    return {
        "HTTPS_PROXY": address,
        "https_proxy": address,
        "NO_PROXY": exceptions,
        "no_proxy": exceptions,
        "ARM_CLOUD_METADATA_URL": None,
    }


def _metadata_variables(port: int, environment: Mapping[str, str]) -> dict[str, str | None]:
    """This server's address in place of Azure's, past any proxy of the user's."""
    base = f"https://localhost:{port}/"
    before = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    exceptions = [name for name in before.split(",") if name and name not in LOOPBACK]
    text = ",".join([*exceptions, *LOOPBACK])
    return {
        "ARM_CLOUD_METADATA_URL": f"{base}metadata/endpoints?api-version=2019-05-01",
        "REGISTRY_DISCOVERY_ENDPOINT_URL": base,
        "NO_PROXY": text,
        "no_proxy": text,
    }


def apply_variables(environment: Mapping[str, str], variables: Mapping[str, str | None]) -> dict[str, str]:
    """The user's environment with the variables of a client, as :func:`client_variables` makes them."""
    merged = {name: value for name, value in environment.items() if name not in variables}
    merged |= {name: value for name, value in variables.items() if value is not None}
    return merged


def format_exports(variables: Mapping[str, str | None]) -> Iterator[str]:
    """Lines that a POSIX shell evaluates."""
    for name, value in sorted(variables.items()):
        yield f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"


def _has_mlflow_plugin() -> bool:
    """Whether azureml-mlflow is installed here, without which MLflow does not know ``azureml://``."""
    return any(importlib.metadata.distributions(name="azureml-mlflow"))


LEVELS = 20
FOLDERS = (".azureml", "aml_config", "")
FILES = ("config.json", "project.json")


def find_config(folder: Path) -> Path | None:
    """The file that ``MLClient.from_config()`` would read in ``folder``."""
    ancestors = [folder, *folder.parents][: LEVELS + 1]
    paths = (ancestor / name / file for ancestor in ancestors for name in FOLDERS for file in FILES)
    return next((path for path in paths if path.is_file()), None)


@contextlib.contextmanager
def lend_config(folder: Path, scope: Scope) -> Iterator[Path | None]:
    """Have ``.azureml/config.json`` in a command's folder where no such file is found, until the block ends.

    Yields:
        The file, if it is lent. One of the same content that another server lends, or a killed one left, is
        shared: whoever needs it last removes it.
    """
    path = folder / ".azureml" / "config.json"
    document = {
        "subscription_id": scope.subscription,
        "resource_group": scope.group,
        "workspace_name": scope.workspace,
    }
    text = json.dumps(document, indent=2) + "\n"
    existing = find_config(folder)
    if path.parent.is_symlink() or (existing is not None and not (existing == path and _read(path) == text)):
        yield None
        return
    made_folder = not path.parent.exists()
    try:
        path.parent.mkdir(exist_ok=True)
        if made_folder:
            ignore_in_git(path.parent)
        if existing is None:
            write_whole(path, text.encode(), new=True)
        held = untrusted.open_file(path)
        fcntl.flock(held, fcntl.LOCK_SH)
    except OSError:  # a folder that cannot be written: the command may not need it
        yield None
        return
    try:
        yield path
    finally:
        with held, contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if another server still lends it
            if _read(path) == text:  # the command may have replaced it
                path.unlink()
            if made_folder or existing is not None:
                if [file.name for file in path.parent.iterdir()] == [".gitignore"]:
                    (path.parent / ".gitignore").unlink()
                path.parent.rmdir()


def _read(path: Path) -> str:
    try:
        return untrusted.read_text(path)
    except OSError:
        return ""
