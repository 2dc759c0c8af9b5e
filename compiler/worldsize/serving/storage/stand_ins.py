"""Public data at an address of Azure's: the file that ``assets:`` of the project gives for it.

Nothing goes to Azure while the workspace is served, so a program that downloads such data gets what the user
has put in its place, as the inputs of jobs do.
"""

from __future__ import annotations

import os
from pathlib import Path

from worldsize.serving.control.paths import project_assets
from worldsize.serving.storage.blobs import Blob, stat_blob
from worldsize.serving.storage.errors import StorageError
from worldsize.serving.workspace import BLOB_HOST, Workspace


def find_stand_in(workspace: Workspace, host: str, container: str, path: str) -> Blob:
    """The file that ``assets:`` gives for a blob of another account.

    Raises:
        StorageError: 404, there is none.
    """
    address = f"https://{host}/{container}/{path}"
    assets = project_assets(workspace)
    file = assets.local(address)
    if file is not None and _is_below(file, assets.paths):
        blob = stat_blob(file, container, path)
        if blob is not None:
            return blob
    message = "The specified blob does not exist."
    if host.lower() != BLOB_HOST:
        message += (
            f" `worldsize serve` lets no request through to `{host}`: write `{address[:500]}: ./FILE` under"
            " `assets:` of `worldsize.yml` to put a file in its place."
        )
    raise StorageError(404, "BlobNotFound", message)


def _is_below(file: Path, roots: list[Path]) -> bool:
    """Whether a file, all links followed, is one that the user has named or in a folder of that kind."""
    real = Path(os.path.realpath(file))
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)
