"""Files in the datastores of a workspace, as their storage lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from worldsize.remote.submit import quiet

if TYPE_CHECKING:
    from azure.ai.ml import MLClient

_STORE = re.compile(r"azureml://(?:[^?#]*/)?datastores/(?P<store>[^/]+)/paths/(?P<path>.*)", re.DOTALL)
_FOLDER = "hdi_isfolder"  # metadata of a folder, where storage has such


class StoredFile(NamedTuple):
    """A file in storage."""

    size: int
    modified: float  # seconds since 1970


def list_files(client: MLClient, uri: str) -> Mapping[str, StoredFile] | None:
    """The files below a path in a datastore, by their places in it; None for an address of another kind.

    Raises:
        HttpResponseError: The storage refuses it.
        MlException: The datastore is of a type that azure-ai-ml does not upload to.
    """
    match = _STORE.fullmatch(uri)
    if match is None:
        return None
    with quiet():
        from azure.ai.ml._artifacts._artifact_utilities import get_datastore_info
        from azure.storage.blob import ContainerClient

        info = get_datastore_info(client.datastores, match["store"])
        account = info["account_url"].replace(".dfs.", ".blob.", 1)  # both serve the same files
        container = ContainerClient(account, info["container_name"], credential=info["credential"])
        prefix, files = match["path"].strip("/"), {}
        with container:
            for blob in container.list_blobs(name_starts_with=prefix or None, include=["metadata"]):
                place = blob.name.removeprefix(prefix) if prefix else f"/{blob.name}"
                if place[:1] in ("", "/") and _FOLDER not in (blob.metadata or {}):
                    files[place[1:]] = StoredFile(blob.size, blob.last_modified.timestamp())
    return files
