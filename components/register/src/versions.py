"""The version in the registry: one for each model that a step of a run registers, however often it starts."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path

import mlflow
from mlflow.entities import Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.store.entities import PagedList

from wsmlflow.active_run import artifact_names

ARTIFACT = "model"  # where the run keeps the model
ATTEMPT = "worldsize.attempt"


def origin_tags(run: Run, model: str) -> dict[str, str]:
    """Who registers what: the same for every attempt of a step with the same model.

    Azure ML and ``worldsize run`` keep a job's own id and that of the pipeline when they start it again.
    """
    own = os.environ.get("AZUREML_RUN_ID") or run.info.run_id
    root = os.environ.get("AZUREML_ROOT_RUN_ID") or own
    card = (Path(model) / "MLmodel").read_bytes()  # has the model's uuid and the time when it was saved
    return {
        "worldsize.run": root,
        "worldsize.step": own.removeprefix(f"{root}_"),
        "worldsize.model": hashlib.sha256(card).hexdigest(),
    }


def register_once(run: Run, model: str, name: str, tags: Mapping[str, str], description: str) -> str:
    """Register a model, or finish the version that an earlier attempt has registered; returns the version.

    A new version gets all its tags with the call that creates it: an attempt that is killed leaves a version
    that the next one recognizes, or none.
    """
    client = mlflow.MlflowClient()
    origin = origin_tags(run, model)
    earlier = find_version(client, name, origin)
    attempts = int(earlier.tags.get(ATTEMPT, "1")) + 1 if earlier else 1
    wanted = {**tags, **origin, ATTEMPT: run.data.tags.get(ATTEMPT) or str(attempts)}
    if earlier is None:
        source = keep_model(client, run, model)
        create_container(client, name)
        made = client.create_model_version(
            name, source, run.info.run_id, tags=wanted, description=description or None
        )
        return str(made.version)
    for key, value in wanted.items():
        if earlier.tags.get(key) != value:
            client.set_model_version_tag(name, earlier.version, key, value)
    if description and earlier.description != description:
        client.update_model_version(name, earlier.version, description)
    print(f"{name} version {earlier.version} was registered by an earlier attempt, and is finished now")
    return str(earlier.version)


def find_version(client: mlflow.MlflowClient, name: str, origin: Mapping[str, str]) -> ModelVersion | None:
    """The version with these tags; not every registry can be searched by tags, so they are compared here."""
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
    """Keep the model with the run; returns its URI.

    Azure ML does not replace artifacts: where an earlier attempt has uploaded some, perhaps not all, the
    model gets a folder of its own.
    """
    taken = artifact_names(run)
    name = ARTIFACT
    try:
        client.log_artifacts(run.info.run_id, model, name)
    except Exception:
        if name not in taken:
            raise
        name = next(free for n in itertools.count(2) if (free := f"{ARTIFACT}-{n}") not in taken)
        client.log_artifacts(run.info.run_id, model, name)
    # As `runs:/`, mlflow 3 looks for the model where azureml-mlflow does not list it.
    return str(mlflow.get_artifact_uri(name))


def create_container(client: mlflow.MlflowClient, name: str) -> None:
    """Create the registered model that versions belong to, where there is none.

    Raises:
        MlflowException: there is none, and it cannot be created.
    """
    try:
        client.create_registered_model(name)
    except MlflowException as refused:
        try:
            client.get_registered_model(name)
        except MlflowException:
            raise refused from None
