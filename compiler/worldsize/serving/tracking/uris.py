"""The locations of artifacts, as MLflow's database has them and as clients are told them.

The database has files of the home, which jobs write without a server. azureml-mlflow reaches them by
``azureml://<host>/artifact/v2.0/<workspace>/experiments/<e>/runs/<r>/artifacts/<path>``, or by
``azureml://artifacts/<origin>/<container>/<path>``; plain MLflow by ``mlflow-artifacts:/<run>/<path>``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from worldsize.serving.artifacts.folders import (
    CONTAINER,
    RUN_ID,
    RunArtifact,
    find_artifact,
    local_folder_of,
    parts_below,
    path_of_file_uri,
    run_artifact,
)
from worldsize.serving.home import Home
from worldsize.serving.storage.errors import StorageError
from worldsize.serving.storage.files import blob_name, is_inside, locate

KEYS = frozenset(("artifact_uri", "artifact_location", "source", "storage_location"))
TAG = "mlflow.artifactLocation"  # of a trace
PLAIN = "mlflow-artifacts:/"
RUN_URI = re.compile(r"azureml://[^/]*/artifact/[^?#]{0,1000}/runs/([^/?#]+)/artifacts(?:/([^?#]*))?")


@dataclass(frozen=True, slots=True)
class ArtifactUris:
    """Translates the locations of one home for one client.

    Args:
        home: The home.
        base: ``azureml://<host>/artifact/v2.0/<workspace>`` for azureml-mlflow, None for plain MLflow.
    """

    home: Home
    base: str | None

    def rewrite(self, document: Any) -> Any:
        """An answer of MLflow with the locations that the client can reach."""
        if isinstance(document, list):
            return [self.rewrite(item) for item in document]
        if not isinstance(document, dict):
            return document
        experiment = str(document.get("experiment_id", "0"))
        is_tag = document.get("key") == TAG
        changed = {}
        for key, value in document.items():
            if isinstance(value, str):
                located = key in KEYS or (is_tag and key == "value")
                changed[key] = self.to_client(value, experiment) if located else value
            else:
                changed[key] = self.rewrite(value)
        return changed

    def to_client(self, location: str, experiment: str) -> str:
        """The location that the client is told; the same for one that is not in the home."""
        path = path_of_file_uri(location)
        if path is None:
            return location
        artifact = run_artifact(self.home, path)
        if artifact is not None:
            return self._run_location(artifact, experiment)
        parts = parts_below(self.home.artifacts, path) or ()
        if self.base is None:
            return location
        if len(parts) == 1:
            return f"{self.base}/experiments/{quote(parts[0])}"
        name = find_artifact(self.home, path)
        return location if name is None else f"azureml://artifacts/{name}"

    def to_store(self, location: str) -> str:
        """The file that a client's location means; the same for any other location."""
        path = self._client_path(location)
        if path is None or not is_inside(self.home, path):
            return location
        return path.as_uri()

    def _client_path(self, location: str) -> Path | None:
        match = RUN_URI.fullmatch(location)
        try:
            if match is not None and RUN_ID.fullmatch(match[1]):
                folder = local_folder_of(self.home, match[1])
                return None if folder is None else folder / blob_name(match[2] or "")
            if location.startswith("azureml://artifacts/"):
                return locate(self.home, CONTAINER, location.removeprefix("azureml://artifacts/"))
            if location.startswith(PLAIN):
                run, _, rest = unquote(location.removeprefix(PLAIN)).lstrip("/").partition("/")
                folder = local_folder_of(self.home, run)
                return None if folder is None else folder / blob_name(rest)
        except StorageError:
            return None
        return None

    def _run_location(self, artifact: RunArtifact, experiment: str) -> str:
        tail = f"/{artifact.path}" if artifact.path else ""
        if self.base is None:
            return f"{PLAIN}{artifact.run}{quote(tail)}"
        return f"{self.base}/experiments/{quote(experiment, safe='')}/runs/{artifact.run}/artifacts{tail}"
