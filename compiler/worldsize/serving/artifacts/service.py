"""What the artifact service says of artifacts, and the creation of those that a client is about to upload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from worldsize.serving.artifacts.folders import (
    CONTAINER,
    RUN_CONTAINER,
    RUNS,
    blob_path,
    find_run_folder,
    prepare_run_folder,
    unknown_artifact,
)
from worldsize.serving.storage.blobs import Blob, read_blob
from worldsize.serving.storage.files import blob_name
from worldsize.serving.storage.listing import list_blobs
from worldsize.serving.workspace import ARTIFACT_STORE, Workspace

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ArtifactContainer:
    """Artifacts of one origin: a run's, or those of one upload.

    Args:
        workspace: The workspace.
        signature: The query string with which a client reaches their blobs.
        origin: ``ExperimentRun``, ``LocalUpload``, …
        name: ``dcid.<run>`` for a run.
    """

    workspace: Workspace
    signature: str
    origin: str
    name: str

    def blob(self, path: str) -> str:
        """The blob of an artifact."""
        return blob_path(self.origin, self.name, blob_name(path))

    def prepare(self) -> None:
        """Make the folder, where that is not for the first upload to do."""
        if self._run is not None:
            prepare_run_folder(self.workspace.home, self._run)

    def find(self, path: str) -> Blob:
        """An artifact that exists.

        Raises:
            ServiceError: 404.
        """
        self._show()
        blob = read_blob(self.workspace, CONTAINER, self.blob(path))
        if blob is None:
            raise unknown_artifact(path)
        return blob

    def list_paths(self, prefix: str = "") -> Iterator[Blob]:
        """The artifacts whose paths begin with a text, in the order of their paths."""
        self._show()
        start = f"{self.origin}/{self.name}/"
        after: str | None = None
        while after != "":
            page = list_blobs(self.workspace.home, CONTAINER, prefix=start + prefix, after=after or "")
            yield from page.blobs
            after = page.after

    def path_of(self, blob: Blob) -> str:
        """The path of an artifact in the container."""
        return blob.name.removeprefix(f"{self.origin}/{self.name}/")

    def describe(self, path: str, blob: Blob | None = None) -> Document:
        """The artifact itself (``ArtifactDto``)."""
        identity = f"{self.origin}/{self.name}/{path}"
        written = blob.modified.isoformat() if blob is not None else None
        return {
            "artifactId": identity,
            "origin": self.origin,
            "container": self.name,
            "path": path,
            "etag": blob.etag if blob is not None else None,
            "createdTime": written,
            "dataPath": {"dataStoreName": ARTIFACT_STORE, "relativePath": identity},
            "tags": {},
        }

    def content(self, path: str) -> Document:
        """Where a client reads or writes the artifact (``ArtifactContentInformationDto``)."""
        uri = f"{self.workspace.endpoints.blob}/{CONTAINER}/{quote(self.blob(path))}?{self.signature}"
        return {"contentUri": uri, "origin": self.origin, "container": self.name, "path": path, "tags": {}}

    def create(self, paths: Sequence[str]) -> Document:
        """Say where artifacts are to be uploaded; one that exists is an error: none is overwritten."""
        self.prepare()
        artifacts: Document = {}
        contents: Document = {}
        errors: Document = {}
        for path in paths:
            if read_blob(self.workspace, CONTAINER, self.blob(path)) is not None:
                message = f"Resource Conflict: ArtifactId {self.origin}/{self.name}/{path} already exists."
                errors[path] = {"error": {"code": "UserError", "message": message}}
                continue
            artifacts[path] = self.describe(path)
            contents[path] = self.content(path)
        return {"artifacts": artifacts, "artifactContentInformation": contents, "errors": errors}

    @property
    def _run(self) -> str | None:
        """The run that the container is of."""
        is_run = self.origin == RUNS and self.name.startswith(RUN_CONTAINER)
        return self.name.removeprefix(RUN_CONTAINER) if is_run else None

    def _show(self) -> None:
        """Make what MLflow has stored for the run visible among the blobs."""
        if self._run is not None:
            find_run_folder(self.workspace.home, self._run)
