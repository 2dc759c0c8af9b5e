"""The files of a job where clients look for them: links in the containers of the workspace's datastores.

``azureml`` has ``ExperimentRun/dcid.<job>/``, which is MLflow's folder of the run, with logs and what the job
wrote to ``./outputs`` and ``./logs``; ``azureml-blobstore`` has ``azureml/<job>/<output>`` for each output. A
link leads into the run's folder.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from worldsize.running.model.folder import StepFolder
from worldsize.serving.artifacts.folders import prepare_run_folder
from worldsize.serving.home import PRIVATE_FOLDER, Home
from worldsize.serving.workspace import ARTIFACT_STORE, BLOB_STORE, CONTAINERS

PIPELINE_LOG = "logs/azureml/executionlogs.txt"  # what clients stream of a pipeline,
SWEEP_LOG = "azureml-logs/hyperdrive.txt"  # of a sweep,
COMMAND_LOG = "user_logs/std_log.txt"  # and of a command in one process
# What is said before a command starts. Clients stream logs of such names, and no process writes this one.
NOTICES_LOG = "user_logs/std_log_notices.txt"
_PROCESS = re.compile(r"([a-z]+)-(\d+)\.log")


def artifacts_prefix(name: str) -> str:
    """The path of a job's artifacts in their container."""
    return f"ExperimentRun/dcid.{name}"


def output_prefix(name: str, output: str) -> str:
    """The path of an output of a job in the container of the default datastore."""
    return f"azureml/{name}/{output}"


def artifacts_folder(home: Home, name: str) -> Path:
    """The folder of a job's artifacts."""
    return home.blobs / CONTAINERS[ARTIFACT_STORE] / artifacts_prefix(name)


def output_link(home: Home, name: str, output: str) -> Path:
    """Where an output of a job is found."""
    return home.blobs / CONTAINERS[BLOB_STORE] / output_prefix(name, output)


def link_step(home: Home, name: str, step: StepFolder, outputs: list[str], processes: int = 1) -> None:
    """Link what a step that starts will write: logs, artifacts and outputs."""
    folder = prepare_run_folder(home, name)
    for inner in ("outputs", "logs"):
        make_link(step.code / inner, folder / inner)
    for output in outputs:
        make_link(step.outputs / output, output_link(home, name, output))
    link_logs(home, name, step, processes)


def link_logs(home: Home, name: str, step: StepFolder, processes: int = 1) -> None:
    """Link the logs that the processes of a step have begun, of so many processes."""
    paths = sorted(step.logs.glob("*.log"))
    folder = prepare_run_folder(home, name) if paths else artifacts_folder(home, name)
    for path, shown in name_logs([path.name for path in paths], processes):
        make_link(step.logs / path, folder / shown)


def name_logs(names: list[str], processes: int = 1) -> Iterator[tuple[str, str]]:
    """The logs of a step with the names that the service gives them.

    One process writes ``std_log.txt``; of several each has its own, numbered by rank. One of them begins
    first, and its log must not have the name of an only one for as long as it is alone.
    """
    for name in names:
        match = _PROCESS.fullmatch(name)
        if max(len(names), processes) == 1:
            yield name, COMMAND_LOG
        elif match is not None:
            kind = "_ps" if match[1] == "ps" else ""
            yield name, f"user_logs/std_log_process_{int(match[2]):02}{kind}.txt"


def append_log(home: Home, name: str, log: str, text: str) -> None:
    """Append text to a log of the service itself, such as that of a pipeline."""
    path = prepare_run_folder(home, name) / log
    path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if path.is_symlink():
        return
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def make_link(target: Path, link: Path) -> None:
    """Make a relative link, so that the home can be moved; an entry that exists stays."""
    link.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(os.path.relpath(os.path.realpath(target), os.path.realpath(link.parent)))


def list_logs(home: Home, name: str) -> list[str]:
    """The paths of a job's logs below its artifacts."""
    folder = artifacts_folder(home, name)
    found = [
        path for inner in ("user_logs", "azureml-logs", "logs/azureml") for path in folder.glob(f"{inner}/*")
    ]
    return sorted(str(path.relative_to(folder)) for path in found if path.is_file())
