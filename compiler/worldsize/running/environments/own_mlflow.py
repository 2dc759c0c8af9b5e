"""An environment that brings another MLflow, which refuses the database of the one that runs this."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import util
from pathlib import Path

from worldsize.running.environments import layers

FOLDER = "mlruns"  # in a step's folder
_RUN = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_")
_MIGRATIONS = ("store", "db_migrations", "versions")


def differs(layer: Path) -> bool:
    """Whether a layer has an MLflow whose database has another schema: one that was changed other times."""
    theirs = layers.packages_of(layer) / "mlflow"
    spec = util.find_spec("mlflow")
    if not theirs.is_dir() or spec is None or spec.origin is None:
        return False
    return _names(theirs) != _names(Path(spec.origin).parent)


def apart(environment: Mapping[str, str], step: Path) -> dict[str, str]:
    """Variables that have what a step logs land in its own folder, where it was to be kept at all."""
    if "MLFLOW_TRACKING_URI" not in environment:
        return dict(environment)
    place = (step / FOLDER).as_uri()
    kept = {name: value for name, value in environment.items() if not name.startswith(_RUN)}
    return {**kept, "MLFLOW_TRACKING_URI": place, "MLFLOW_REGISTRY_URI": place}


def _names(package: Path) -> set[str]:
    folder = package.joinpath(*_MIGRATIONS)
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208 - names are all that is wanted
    return {name for name in names if name.endswith(".py")}
