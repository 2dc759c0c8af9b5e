"""The champion: read from the registry, downloaded and loaded by its version."""

from __future__ import annotations

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


def download_version(name: str, version: str, folder: str) -> str:
    """Download a version of a model into a folder, and return where it is.

    Raises:
        UserError: it cannot be downloaded.
    """
    try:
        return str(mlflow.artifacts.download_artifacts(f"models:/{name}/{version}", dst_path=folder))
    except Exception as error:  # of the registry, the storage or its client
        raise UserError(f"the model cannot be downloaded: {describe_error(error, 140)}") from error
