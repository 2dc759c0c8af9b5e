"""Where artifacts lie: every run has a folder ``ExperimentRun/dcid.<run>`` in the container ``azureml``.

The folder is a link to the artifacts that MLflow keeps for the run, so what a job logs, what a client uploads
and what a listing of blobs shows are the same files.
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from worldsize.running.record.tracker import chosen_artifacts
from worldsize.serving.errors import ServiceError, bad_request
from worldsize.serving.home import PRIVATE_FOLDER, Home
from worldsize.serving.storage.files import is_inside, locate, make_link
from worldsize.serving.workspace import ARTIFACT_STORE, CONTAINERS
from worldsize.tracking.runs import artifact_uri

CONTAINER = CONTAINERS[ARTIFACT_STORE]
RUNS = "ExperimentRun"  # the origin of runs' artifacts
RUN_CONTAINER = "dcid."
RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


@dataclass(frozen=True, slots=True)
class RunArtifact:
    """An artifact of a run or of a logged model; the path is empty for all of them."""

    run: str
    path: str


def blob_path(origin: str, container: str, path: str) -> str:
    """The blob of an artifact, in the container :data:`CONTAINER`."""
    return f"{origin}/{container}/{path}" if path else f"{origin}/{container}"


def run_blob_path(run: str, path: str) -> str:
    """The blob of a run's artifact."""
    return blob_path(RUNS, f"{RUN_CONTAINER}{run}", path)


def prepare_run_folder(home: Home, run: str) -> Path:
    """The folder of a run's artifacts, which is made if it does not exist.

    ``run`` is the id of an MLflow run or logged model, or the name of a job, whose run may not exist yet.

    Raises:
        ServiceError: 400, for a text that is no id.
    """
    place = _run_link(home, run)
    if not place.exists():
        target = local_folder_of(home, run) or chosen_artifacts(home.artifacts.absolute(), run)
        target.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if place.is_symlink():  # it leads to what has gone
            place.unlink(missing_ok=True)
        make_link(target, place)
    return place


def find_run_folder(home: Home, run: str) -> Path | None:
    """The folder of a run's artifacts, None if it has none yet."""
    place = _run_link(home, run)
    if place.is_dir():
        return place
    stored = local_folder_of(home, run)
    return prepare_run_folder(home, run) if stored is not None and stored.is_dir() else None


def local_folder_of(home: Home, run: str) -> Path | None:
    """The folder that MLflow's database names for a run or logged model, if it is in the home."""
    uri = artifact_uri(home.root, run)
    folder = None if uri is None else path_of_file_uri(uri)
    return folder if folder is not None and is_inside(home, folder) else None


def run_artifact(home: Home, path: Path) -> RunArtifact | None:
    """The run whose artifact a file is, None if it is none.

    MLflow has ``<experiment>/<run>/artifacts``, ``<experiment>/models/<model>/artifacts`` and the same for
    traces; a run with a chosen id has a folder of its own.
    """
    uploaded = parts_below(home.blobs / CONTAINER / RUNS, path)
    if uploaded and uploaded[0].startswith(RUN_CONTAINER):
        return RunArtifact(uploaded[0].removeprefix(RUN_CONTAINER), "/".join(uploaded[1:]))
    chosen = parts_below(chosen_artifacts(home.artifacts, ""), path)
    if chosen:
        return RunArtifact(chosen[0], "/".join(chosen[1:]))
    parts = parts_below(home.artifacts, path) or ()
    if len(parts) > 3 and parts[1] in ("models", "traces") and parts[3] == "artifacts":
        return RunArtifact(parts[2], "/".join(parts[4:]))
    if len(parts) > 2 and parts[2] == "artifacts":
        return RunArtifact(parts[1], "/".join(parts[3:]))
    return None


def find_artifact(home: Home, path: Path) -> str | None:
    """The blob in :data:`CONTAINER` that a file of the home is, which is made visible there; None for others.

    Models are registered from anywhere: from a run's artifacts, a job's folder or an upload.
    """
    artifact = run_artifact(home, path)
    if artifact is not None:
        if RUN_ID.fullmatch(artifact.run) is None:
            return None
        prepare_run_folder(home, artifact.run)
        return run_blob_path(artifact.run, artifact.path)
    if parts := parts_below(home.blobs / CONTAINER, path):
        return "/".join(parts)
    for title, folder in (("LocalRuns", home.runs), ("Datastores", home.blobs)):
        if parts := parts_below(folder, path):
            make_link(folder / parts[0], locate(home, CONTAINER, f"{title}/{parts[0]}"))
            return "/".join((title, *parts))
    return None


def parts_below(folder: Path, path: Path) -> tuple[str, ...] | None:
    """The parts of a path below a folder, however either is written; None if it is not there."""
    for top in (folder.absolute(), folder.resolve()):
        if path.is_relative_to(top):
            return path.relative_to(top).parts
    return None


def _run_link(home: Home, run: str) -> Path:
    if RUN_ID.fullmatch(run) is None:
        raise bad_request(f"`{run[:80]}` is not the id of a run.")
    return locate(home, CONTAINER, run_blob_path(run, ""))


def path_of_file_uri(uri: str) -> Path | None:
    """The path of a ``file:`` URI or of an absolute path; None for any other location."""
    if uri.startswith("/"):
        return Path(uri)
    try:
        parts = urllib.parse.urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = urllib.parse.unquote(parts.path)
    return Path(path) if path.startswith("/") and "\0" not in path else None


def unknown_artifact(path: str) -> ServiceError:
    """404 for an artifact."""
    return ServiceError(404, "UserError", f"The artifact `{path[:200]}` was not found.")
