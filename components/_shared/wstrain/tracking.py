"""MLflow on rank 0: parameters once, metrics in batches from a thread of their own.

MLflow takes seconds and a hundred megabytes to import, so no other rank imports this.

The tracking URI, experiment and run come from the environment that the platform prepares.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

import mlflow
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from wsshards.errors import Interrupted, UserError

MOST_POINTS = 10_000  # of one curve: a longer training is thinned evenly
BATCH_SECONDS = 2.0  # between two requests
MOST_METRICS = 1_000  # a request may carry (MLflow REST API, runs/log-batch)


class Tracker:
    """One MLflow run, as a context manager that ends it.

    Args:
        parameters: what the run was started with.
        total_steps: expected length of the curves.

    Raises:
        UserError: the tracking server does not answer.
    """

    def __init__(self, parameters: Mapping[str, Any], total_steps: int) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # its migrations are no news to a training
        try:
            self._run = mlflow.start_run()
        except (MlflowException, OSError) as error:
            raise _refused(error) from error
        self._stride = max(1, -(-total_steps // MOST_POINTS))
        self._queue: queue.Queue[list[Metric] | None] = queue.Queue()
        self._failure: Exception | None = None
        self._log_parameters(parameters)
        self._thread = threading.Thread(target=self._send, name="mlflow", daemon=True)
        self._thread.start()

    def log(self, step: int, values: Mapping[str, float], *, always: bool = False) -> None:
        """Queue the values of one optimizer step, counted from 1; returns at once."""
        if self._failure:
            raise _refused(self._failure)
        if step % self._stride == 0 or always:
            now = int(time.time() * 1000)
            self._queue.put([Metric(name, value, now, step) for name, value in values.items()])

    def __enter__(self) -> Tracker:  # noqa: PYI034  Self is younger than Python 3.10
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        stopped = kind is not None and issubclass(kind, Interrupted)
        self._close("FINISHED" if kind is None else "KILLED" if stopped else "FAILED")

    def _close(self, status: str) -> None:
        self._queue.put(None)
        self._thread.join()
        mlflow.end_run(status)
        if self._failure and status == "FINISHED":
            raise _refused(self._failure)

    def _log_parameters(self, parameters: Mapping[str, Any]) -> None:
        try:
            mlflow.log_params({name: str(value) for name, value in parameters.items()})
        except MlflowException as error:
            # A job that is restarted with another world size joins its old run, whose parameters are fixed.
            if "already logged" not in str(error) and "Changing param" not in str(error):
                raise _refused(error) from error
            mlflow.set_tags({f"resumed.{name}": str(value) for name, value in parameters.items()})

    def _send(self) -> None:
        client = mlflow.MlflowClient()
        closing = False
        while not closing:
            metrics, closing = self._drain()
            try:
                for start in range(0, len(metrics), MOST_METRICS):
                    client.log_batch(self._run.info.run_id, metrics[start : start + MOST_METRICS])
            except Exception as error:  # whatever it is, the training thread must hear of it
                self._failure = error
                return

    def _drain(self) -> tuple[list[Metric], bool]:
        item = self._queue.get()
        deadline = time.monotonic() + BATCH_SECONDS
        metrics: list[Metric] = []
        while item is not None:
            metrics += item
            try:
                item = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return metrics, False
        return metrics, True


def _refused(error: Exception) -> UserError:
    first = str(error).strip().splitlines() or [type(error).__name__]
    return UserError(f"MLflow does not take the metrics: {first[0][:120]}", "check `MLFLOW_TRACKING_URI`")
