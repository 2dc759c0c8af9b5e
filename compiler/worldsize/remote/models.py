"""The models of a workspace, as a registry that champions are in."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from worldsize.remote.errors import RemoteError
from worldsize.remote.rest import Rest
from worldsize.remote.submit import make_client, quiet
from wschampion.champion import Version

if TYPE_CHECKING:
    from azure.ai.ml import MLClient

_ATTEMPTS = 5  # to set a tag


class WorkspaceRegistry:
    """The registry of a workspace: read by REST, and changed by azure-ai-ml."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    @property
    def place(self) -> str:
        """What messages call it."""
        return self._rest.names.shown

    @cached_property
    def _client(self) -> MLClient:
        return make_client(self._rest.names, self._rest.credential)

    def names(self) -> list[str]:
        """The names of all models."""
        return sorted(str(model["name"]) for model in self._rest.list("/models"))

    @cached_property
    def _names(self) -> list[str]:
        return self.names()

    def versions(self, name: str) -> list[Version]:
        """The versions of a model; none if there is no such model."""
        if name not in self._names:
            return []
        return [
            Version(
                str(item["name"]),
                (item.get("properties") or {}).get("tags") or {},
                _read_time((item.get("systemData") or {}).get("createdAt")),
            )
            for item in self._rest.list(f"/models/{quote(name, safe='')}/versions")
        ]

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        """Set a tag of a version.

        A request replaces all tags, so that it is repeated if another one has replaced them meanwhile.

        Raises:
            RemoteError: The workspace does not keep the tag.
        """
        with quiet():
            for _ in range(_ATTEMPTS):
                model = self._client.models.get(name, version)
                if (model.tags or {}).get(key, "") == value:
                    return
                model.tags = {**(model.tags or {}), key: value}
                self._client.models.create_or_update(model)
        raise RemoteError(f"{self.place} does not keep the tag `{key}` of version {version} of `{name}`")

    def archive(self, name: str, version: str) -> None:
        """Hide a version from lists; its files stay in the workspace's storage."""
        with quiet():
            self._client.models.archive(name, version)


def _read_time(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
