"""The champion: read from the registry, downloaded and loaded by its version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import mlflow

from wschampion.champion import PatientRegistry, Version, find_champion
from wsmlflow.active_run import report_mlflow_errors
from wsmlflow.registry import MlflowRegistry
from wsshards.errors import UserError, describe_error


def read_champion(name: str) -> Version | None:
    """Return the version of a model that is in use; None before the first.

    Raises:
        UserError: the registry does not answer.
    """
    with report_mlflow_errors(f"the versions of `{name}` cannot be read"):
        return find_champion(PatientRegistry(MlflowRegistry(mlflow.MlflowClient())).versions(name))


@contextmanager
def download_version(name: str, version: str) -> Iterator[Path]:
    """Download a version of a model for as long as it is needed.

    Raises:
        UserError: it cannot be downloaded.
    """
    with TemporaryDirectory() as folder:
        try:
            path = mlflow.artifacts.download_artifacts(f"models:/{name}/{version}", dst_path=folder)
        except Exception as error:  # of the registry, the storage or its client
            raise UserError(f"the model cannot be downloaded: {describe_error(error, 140)}") from error
        yield Path(path)
