"""Microsoft's own environments, whose names have a prefix that nobody else may use.

Which there are changes every month and only Azure knows, so every name with the prefix is taken for one. Jobs
run with the packages of this machine; the checker knows those of the environments in ``facts``.
"""

from __future__ import annotations

from worldsize.facts import curated
from worldsize.serving.control.assets import Asset, Container
from worldsize.serving.control.document import JsonObject

PREFIX = "azureml-"
CREATED = "2026-01-01T00:00:00.000000Z"
_IMAGE = "mcr.microsoft.com/azureml/curated/{}:latest"


def is_curated(kind: str, name: str) -> bool:
    """Whether a name is one of Microsoft's."""
    return kind == "environments" and name.lower().startswith(PREFIX)


def curated_version(name: str, version: str = "1") -> Asset:
    """A version of a curated environment; every version is the same here."""
    properties: JsonObject = {
        "image": _IMAGE.format(name.lower().removeprefix(PREFIX)),
        "osType": "Linux",
        "environmentType": "Curated",
        "description": None,
        "tags": {},
        "properties": {},
        "isAnonymous": False,
    }
    return Asset("environments", name, version, properties, False, CREATED, CREATED, None)


def curated_container(name: str) -> Container:
    """All versions of a curated environment."""
    return Container("environments", name, {}, False, CREATED, CREATED, "1", "2", None)


def list_curated() -> list[Container]:
    """The curated environments whose packages are known."""
    return [curated_container(f"AzureML-{name}") for name in curated.names()]
