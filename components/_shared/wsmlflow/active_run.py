"""The MLflow run that the platform prepared: errors, and logging that can be repeated.

The run is in a local database, or in an Azure ML workspace behind the plugin azureml-mlflow: that raises
errors of other classes, the service does not replace an artifact, and it has limits that MLflow's servers do
not have. A restarted job finds its run, and what it has logged there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import mlflow
from mlflow.entities import Run

from wsshards.errors import UserError, describe_error

# Azure ML: "Service limits", which has "Metrics".
MAX_METRIC_NAMES = 50  # of one run
MAX_METRICS = 250  # of one request

_HELP = "check `MLFLOW_TRACKING_URI`, and what the job's identity may do there"


@contextmanager
def report_mlflow_errors(what: str) -> Iterator[None]:
    """Turn any error of MLflow or its plugin into one sentence.

    Args:
        what: the beginning of the sentence, such as what failed.

    Raises:
        UserError: MLflow or its plugin raised an error.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # MlflowException, azure.core's, PyJWT's, or just Exception
        raise mlflow_error(what, error) from error


def mlflow_error(what: str, error: Exception) -> UserError:
    """Return the error to stop with for an error of MLflow or its plugin."""
    return UserError(f"{what}: {describe_error(error, 160)}", _HELP)


def log_metrics_once(run: Run, metrics: Mapping[str, float]) -> None:
    """Log the metrics that the active run does not have with these values."""
    known = run.data.metrics
    fresh = {name: value for name, value in metrics.items() if known.get(name) != value}
    if fresh:
        mlflow.log_metrics(fresh)


def log_artifact_once(run: Run, path: Path) -> None:
    """Log a file with the active run, unless the store has it and does not replace it."""
    try:
        mlflow.log_artifact(str(path))
    except Exception:
        if path.name not in artifact_names(run):
            raise


def artifact_names(run: Run) -> set[str]:
    """Return the names of files and folders in the root of a run's artifacts."""
    return {artifact.path for artifact in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
