"""MLflow on rank 0: parameters once, metrics in batches from a separate thread.

MLflow takes seconds and a hundred megabytes to import, so no other rank imports this module. The tracking
URI, experiment and run come from the environment that the platform prepares.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import mlflow
from mlflow.entities import Metric

from wsmlflow.active_run import MAX_METRICS, mlflow_error, report_mlflow_errors
from wsshards.errors import Interrupted

MAX_POINTS = 10_000  # of one curve: a longer training is thinned evenly
BATCH_SECONDS = 2.0  # between two requests
MAX_PARAMETER_CHARACTERS = 500  # characters
REFUSED = "MLflow does not take the metrics"


class Tracker:
    """One MLflow run, as a context manager that ends it.

    A restarted training joins its run and resumes from a checkpoint. Steps that the run already has are not
    logged twice, unless the parameters have changed.

    Args:
        parameters: of the training.
        total_steps: expected length of the curves.

    Raises:
        UserError: the tracking server does not answer.
    """

    def __init__(self, parameters: Mapping[str, Any], total_steps: int) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it reports its migrations
        self._stride = max(1, -(-total_steps // MAX_POINTS))
        self._queue: queue.Queue[list[Metric] | None] = queue.Queue()
        self._failure: Exception | None = None
        with report_mlflow_errors(REFUSED):
            self._run = mlflow.start_run()
            self._known = {} if self._log_parameters(parameters) else self._last_steps()
        self._thread = threading.Thread(target=self._send, name="mlflow", daemon=True)
        self._thread.start()

    def log(self, step: int, values: Mapping[str, float], *, always: bool = False) -> None:
        """Queue the values of one optimizer step, counted from 1; returns at once."""
        if self._failure:
            raise mlflow_error(REFUSED, self._failure)
        fresh = {name: value for name, value in values.items() if step > self._known.get(name, -1)}
        if fresh and (step % self._stride == 0 or always):
            now = int(time.time() * 1000)
            self._queue.put([Metric(name, value, now, step) for name, value in fresh.items()])

    def log_lines(self, name: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Log records as a file of JSON lines; that a run is described less must not end a training."""
        text = "".join(f"{json.dumps(record)}\n" for record in records)
        try:
            mlflow.MlflowClient().log_text(self._run.info.run_id, text, name)
        except Exception as error:  # such as a file that the service has, and does not replace
            logging.getLogger(__name__).info("MLflow does not take `%s`: %s", name, error)

    def __enter__(self) -> Tracker:  # noqa: PYI034  Self is younger than Python 3.10
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        stopped = kind is not None and issubclass(kind, Interrupted)
        self._close("FINISHED" if kind is None else "KILLED" if stopped else "FAILED")

    def _close(self, status: str) -> None:
        self._queue.put(None)
        self._thread.join()
        try:
            mlflow.end_run(status)
        except Exception as error:  # must not hide the error that ended the training
            self._failure = self._failure or error
        if self._failure and status == "FINISHED":
            raise mlflow_error(REFUSED, self._failure)

    def _log_parameters(self, parameters: Mapping[str, Any]) -> bool:
        """Log parameters; return whether some differ from those of the run, which cannot be changed.

        A job that is restarted with another world size joins its old run.
        """
        wanted = {name: str(value)[:MAX_PARAMETER_CHARACTERS] for name, value in parameters.items()}
        known = self._run.data.params
        fresh = {name: value for name, value in wanted.items() if name not in known}
        changed = {name: value for name, value in wanted.items() if known.get(name, value) != value}
        if fresh:
            mlflow.log_params(fresh)
        if changed:
            mlflow.set_tags({f"resumed.{name}": value for name, value in changed.items()})
        return bool(changed)

    def _last_steps(self) -> dict[str, int]:
        """Return the last step that the run has of each metric."""
        client, run_id = mlflow.MlflowClient(), self._run.info.run_id
        try:
            histories = {name: client.get_metric_history(run_id, name) for name in self._run.data.metrics}
        except Exception:  # steps that are logged twice are better than no training
            return {}
        return {
            name: max(metric.step for metric in history) for name, history in histories.items() if history
        }

    def _send(self) -> None:
        client = mlflow.MlflowClient()
        closing = False
        while not closing:
            metrics, closing = self._drain()
            try:
                for start in range(0, len(metrics), MAX_METRICS):
                    client.log_batch(self._run.info.run_id, metrics[start : start + MAX_METRICS])
            except Exception as error:  # the training's thread raises it
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
