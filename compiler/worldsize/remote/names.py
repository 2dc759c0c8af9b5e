"""Finds which workspace is meant: by options, by variables of the environment, or by ``config.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from worldsize.base import untrusted
from worldsize.base.wording import describe_os_error, join_words
from worldsize.remote.errors import RemoteError

# The variables of each name, the first that is set counts: those that Azure ML sets in its jobs, those of
# azure-ai-ml's and azure-identity's examples, and those of the command line's defaults.
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "subscription": ("AZUREML_ARM_SUBSCRIPTION", "AZURE_SUBSCRIPTION_ID"),
    "group": ("AZUREML_ARM_RESOURCEGROUP", "AZURE_RESOURCE_GROUP", "AZURE_DEFAULTS_GROUP"),
    "workspace": ("AZUREML_ARM_WORKSPACE_NAME", "AZUREML_WORKSPACE_NAME", "AZURE_DEFAULTS_WORKSPACE"),
}
OPTIONS = {"subscription": "--subscription", "group": "--resource-group", "workspace": "--workspace"}
_KEYS = {"subscription": "subscription_id", "group": "resource_group", "workspace": "workspace_name"}
# In this order, as `MLClient.from_config` looks for them.
_FILES = (".azureml/config.json", "config.json")


class WorkspaceNames(Struct, frozen=True):
    """The three names of a workspace."""

    subscription: str
    group: str
    workspace: str

    @property
    def id(self) -> str:
        """The workspace's id in Azure Resource Manager."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{self.workspace}"
        )

    @property
    def shown(self) -> str:
        """What messages call it."""
        return f"workspace `{self.workspace}` in resource group `{self.group}`"


def find_workspace(
    subscription: str | None = None,
    group: str | None = None,
    workspace: str | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> WorkspaceNames:
    """Find the names of the workspace.

    The environment counts if it has all three names, otherwise ``config.json`` does, so that a variable that
    is set for another tool does not change which workspace a file names. An option replaces one name. The
    search for the file begins in ``folder``, the working folder by default, and goes upwards.

    Raises:
        RemoteError: A name is missing, or the file cannot be read.
    """
    options = {"subscription": subscription, "group": group, "workspace": workspace}
    chosen = {name: value for name, value in options.items() if value}
    inherited = {
        name: next(value for variable in variables if (value := environment.get(variable)))
        for name, variables in VARIABLES.items()
        if any(environment.get(variable) for variable in variables)
    }
    if len(inherited) < len(options) and len(chosen) < len(options):
        file = _find_config(folder or Path.cwd())
        inherited = {**inherited, **_read_config(file)} if file is not None else inherited
    names = {**inherited, **chosen}
    missing = [OPTIONS[name] for name in options if name not in names]
    if missing:
        raise RemoteError(
            f"which workspace is meant? {join_words([f'`{name}`' for name in missing], 'and')}"
            f" {'is' if len(missing) == 1 else 'are'} not given",
            "add the options, or download `config.json` from the workspace's page into this folder;"
            " without a workspace, `worldsize serve -- worldsize submit …` submits to one on this machine",
        )
    return WorkspaceNames(**names)


def _find_config(folder: Path) -> Path | None:
    folder = folder.resolve()
    for name in _FILES:
        for above in (folder, *folder.parents):
            if (above / name).is_file():
                return above / name
    return None


def _read_config(file: Path) -> dict[str, str]:
    try:
        document = json.loads(untrusted.read_text(file, encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else error
        raise RemoteError(
            f"`{file}` cannot be read: {reason}", "download it again from the workspace"
        ) from None
    document = document if isinstance(document, dict) else {}
    scope = document.get("Scope")  # the form of earlier clients
    if isinstance(scope, str) and len(parts := scope.split("/")) > 8:
        return {"subscription": parts[2], "group": parts[4], "workspace": parts[8]}
    names = {name: document.get(key) for name, key in _KEYS.items()}
    wrong = [key for name, key in _KEYS.items() if not (isinstance(names[name], str) and names[name])]
    if wrong:
        raise RemoteError(f"`{file}` has no `{wrong[0]}`", "download it again from the workspace's page")
    return {name: str(value) for name, value in names.items()}
