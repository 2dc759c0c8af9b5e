"""The version in the registry: one for each model that a step registers, even if the step restarts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping

import mlflow
from mlflow.entities import Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.store.entities import PagedList

from wsmlflow.active_run import artifact_names
from wsmodels.mlmodel import digest_model

ARTIFACT = "model"  # where the run keeps the model
ATTEMPT = "worldsize.attempt"


def origin_tags(run: Run, model: str) -> dict[str, str]:
    """Identify the run, step and model by tags that are the same for every attempt of a step.

    Azure ML and ``worldsize run`` keep the ids of a job and of its pipeline when they restart it.
    """
    job = os.environ.get("AZUREML_RUN_ID") or run.info.run_id
    root = os.environ.get("AZUREML_ROOT_RUN_ID") or job
    return {
        "worldsize.run": root,
        "worldsize.step": job.removeprefix(f"{root}_"),
        "worldsize.model": digest_model(model),
    }


def register_once(run: Run, model: str, name: str, tags: Mapping[str, str], description: str) -> str:
    """Register a model, or complete the version that an earlier attempt registered; returns the version.

    The call that creates a version also sets all its tags. So an attempt that is killed leaves either no
    version or one that the next attempt recognises.
    """
    client = mlflow.MlflowClient()
    origin = origin_tags(run, model)
    earlier = find_version(client, name, origin)
    attempts = int(earlier.tags.get(ATTEMPT, "1")) + 1 if earlier else 1
    wanted = {**tags, **origin, ATTEMPT: run.data.tags.get(ATTEMPT) or str(attempts)}
    if earlier is None:
        source = keep_model(client, run, model)
        create_container(client, name)
        version = client.create_model_version(
            name, source, run.info.run_id, tags=wanted, description=description or None
        )
        return str(version.version)
    for key, value in wanted.items():
        if earlier.tags.get(key) != value:
            client.set_model_version_tag(name, earlier.version, key, value)
    if description and earlier.description != description:
        client.update_model_version(name, earlier.version, description)
    print(f"{name} version {earlier.version} was registered by an earlier attempt, and is finished now")
    return str(earlier.version)


def find_version(client: mlflow.MlflowClient, name: str, origin: Mapping[str, str]) -> ModelVersion | None:
    """Find the version with these tags. Not every registry supports a search by tag, so compare them here."""
    token = None
    named = f'name = "{name}"' if "'" in name else f"name = '{name}'"
    while True:
        page: PagedList[ModelVersion] = client.search_model_versions(named, page_token=token)
        for version in page:
            failed = version.status == "FAILED_REGISTRATION"
            if not failed and all(version.tags.get(key) == value for key, value in origin.items()):
                return version
        token = page.token
        if not token:
            return None


def keep_model(client: mlflow.MlflowClient, run: Run, model: str) -> str:
    """Upload the model to the run; returns its URI.

    Azure ML does not replace artifacts: if an earlier attempt uploaded some of them, the model gets a
    separate folder.
    """
    artifacts = artifact_names(run)
    name = ARTIFACT
    try:
        client.log_artifacts(run.info.run_id, model, name)
    except Exception:
        if name not in artifacts:
            raise
        name = next(free for n in itertools.count(2) if (free := f"{ARTIFACT}-{n}") not in artifacts)
        client.log_artifacts(run.info.run_id, model, name)
    # With a `runs:/` URI, MLflow 3 looks for the model where azureml-mlflow does not list it.
    return str(mlflow.get_artifact_uri(name))


def create_container(client: mlflow.MlflowClient, name: str) -> None:
    """Create the registered model that versions belong to, if it does not exist.

    Raises:
        MlflowException: it does not exist and cannot be created.
    """
    try:
        client.create_registered_model(name)
    except MlflowException as refused:
        try:
            client.get_registered_model(name)
        except MlflowException:
            raise refused from None
