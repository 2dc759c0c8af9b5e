"""The process that records a run in MLflow, so that the runner does not wait for MLflow's import.

This is a separate program, which imports MLflow (seconds) while the runner still checks and compiles. It
reads and writes one JSON document per line. Input: ``begin``, ``step``, ``metrics``, ``tag``, ``end``,
``finish``, each with its number and time; the end of the input without ``finish`` means that the runner died.
Output: ``ready`` (with the experiment), ``step`` (with the run's id), ``metrics`` (with the logged values),
``done`` (the number of the document that was written), or once ``unavailable`` with the reason; ``alive``
every second.

When this process dies, the runner starts another one and repeats what was not ``done``. What was written
nevertheless is not written twice: a step's run is found by its tags, a metric by its time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from worldsize.base.untrusted import UnreadableError
from worldsize.tracking.database import SchemaError, prepared_database
from worldsize.tracking.runs import create_run

ANSWERS: TextIO = sys.stdout
# Below the artifacts' folder: those of runs with chosen ids. No experiment's folder has this name.
CHOSEN = ".jobs"
ALIVE_SECONDS = 1.0
# Tags of a step's run: the number of starts, the time of the last one, and the step's key.
ATTEMPT, ATTEMPT_TIME, KEY = "worldsize.attempt", "worldsize.attempt_time", "worldsize.step_key"
MAX_PARAMETERS = 100  # per request (MLflow REST API, runs/log-batch)
STATES = {"succeeded": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "interrupted": "KILLED"}

STARTED = threading.Event()
ANSWERING = threading.Lock()


class Record:
    """One pipeline run with a nested run for each step.

    Args:
        home: The folder of the database and the artifacts.
        begin: ``experiment``, ``name``, ``tags`` and ``parameters`` of the pipeline's run; ``run_id`` where
            its id is chosen; ``known`` is what an earlier process of the same run answered.
    """

    def __init__(self, home: Path, begin: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient  # takes seconds

        self._home = home
        self._tags: Mapping[str, str] = begin["tags"]
        self._steps: dict[str, str] = {}  # those that are open
        self._runs: dict[str, str] = {}  # all, because metrics of ended ones are read too
        self._earlier_runs: dict[tuple[str, str], str] = {}  # of a resumed run, by step and key
        earlier = begin.get("known")
        with prepared_database(home):
            self._client = MlflowClient(begin["uri"], begin["uri"])
            self.experiment = self._experiment(begin["experiment"], home / "artifacts")
        if earlier is not None:
            self.run_id: str = earlier["run_id"]
            self._runs = dict(earlier["runs"])
            self._steps = {name: self._runs[name] for name in earlier["open"]}
            self._note_earlier(self._all_runs(), frozenset(self._runs.values()))
            return
        self.run_id = (begin.get("again") and self._continued()) or self._new_run(
            begin["name"], begin.get("run_id"), self._tags, begin["time"]
        )
        self._parameters(begin["parameters"])

    def _new_run(self, name: str, run_id: str | None, tags: Mapping[str, str], time: int) -> str:
        """Create a run; one of the chosen id that exists is continued."""
        if run_id is None:
            run = self._client.create_run(self.experiment, time, tags=dict(tags), run_name=name)
            return str(run.info.run_id)
        artifacts = chosen_artifacts(self._home / "artifacts", run_id).absolute().as_uri()
        created = create_run(
            self._home, run_id, name, tags, experiment=self.experiment, artifacts=artifacts, time=time
        )
        if not created:
            self._client.update_run(run_id, status="RUNNING")
        return run_id

    def _continued(self) -> str | None:
        """The id of a resumed run, whose open steps are closed; None if it has no record."""
        runs = self._all_runs()
        for run in runs:
            if "mlflow.parentRunId" in run.data.tags and run.info.status == "RUNNING":
                self._client.set_terminated(run.info.run_id, "KILLED")
        self._note_earlier(runs)
        run_ids = [run.info.run_id for run in runs if "mlflow.parentRunId" not in run.data.tags]
        if run_ids:
            self._client.update_run(run_ids[0], status="RUNNING")
        return str(run_ids[0]) if run_ids else None

    def _all_runs(self) -> list[Any]:
        ours = f"tags.`worldsize.run` = '{self._tags['worldsize.run']}'"
        return list(self._client.search_runs([self.experiment], ours))

    def _note_earlier(self, runs: list[Any], seen: frozenset[str] = frozenset()) -> None:
        """Store the newest run of each step, which comes first, so that the step can continue it."""
        for run in runs:
            which = run.data.tags.get("worldsize.step", ""), run.data.tags.get(KEY, "")
            if "mlflow.parentRunId" in run.data.tags and run.info.run_id not in seen:
                self._earlier_runs.setdefault(which, run.info.run_id)

    def _parameters(self, parameters: Mapping[str, str]) -> None:
        """Log the parameters that a resumed run does not have yet, because parameters cannot change."""
        from mlflow.entities import Param

        logged = self._client.get_run(self.run_id).data.params
        new = [Param(name, value) for name, value in parameters.items() if name not in logged]
        for start in range(0, len(new), MAX_PARAMETERS):
            self._client.log_batch(self.run_id, params=new[start : start + MAX_PARAMETERS])

    def _experiment(self, name: str, artifacts: Path) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        location = artifact_folder(artifacts, name).absolute().as_uri()
        return str(self._client.create_experiment(name, artifact_location=location))

    def step(self, name: str, key: str, time: int, *, repeated: bool, chosen: str | None = None) -> str:
        """Open the run of a step that is about to start, below that of the step that expanded into it.

        A restarted step continues its run, like a job that Azure ML restarts. After a resumption it does so
        only if the step has not changed, and never for the trials of a sweep, which reads their metrics.

        Args:
            name: The step.
            key: The step's key, empty if it is unknown.
            time: When it was requested, in milliseconds.
            repeated: Whether an earlier process may have opened it and died before it answered.
            chosen: The id of the run, if it is not MLflow's to choose.
        """
        owner = name.rpartition(".")[0]
        earlier = self._earlier_runs.pop((name, key), None) if key and owner not in self._runs else None
        if repeated and name not in self._runs:
            earlier = earlier or self._earlier(name, "RUNNING")
        parent = self._runs.get(owner, self.run_id)
        tags = {**self._tags, "mlflow.parentRunId": parent, "worldsize.step": name, KEY: key}
        run_id = self._runs.get(name) or earlier or self._new_run(name, chosen, tags, time)
        self._count_attempt(run_id, time)
        self._steps[name] = self._runs[name] = run_id
        return run_id

    def _count_attempt(self, run_id: str, time: int) -> None:
        """Count an attempt once, even if a process died between the count and its answer."""
        run = self._client.get_run(run_id)
        if run.info.status != "RUNNING":
            self._client.update_run(run_id, status="RUNNING")
        if run.data.tags.get(ATTEMPT_TIME) != str(time):
            from mlflow.entities import RunTag

            attempt = str(int(run.data.tags.get(ATTEMPT, "0")) + 1)
            tags = [RunTag(ATTEMPT, attempt), RunTag(ATTEMPT_TIME, str(time))]
            self._client.log_batch(run_id, tags=tags)

    def metrics(self, name: str, metric: str) -> dict[str, list[Any]]:
        """The values of one metric of a step in order; if there are none, the names of its metrics."""
        run_id = self._runs.get(name) or self._earlier(name)
        if run_id is None:
            return {"values": [], "names": []}
        history = self._client.get_metric_history(run_id, metric)
        history.sort(key=lambda point: (point.timestamp, point.step))
        names = [] if history else sorted(self._client.get_run(run_id).data.metrics)
        return {"values": [point.value for point in history], "names": names}

    def _earlier(self, name: str, status: str | None = None) -> str | None:
        """The newest run of a step that an earlier process created."""
        ours = f"tags.`worldsize.run` = '{self._tags['worldsize.run']}' and tags.`worldsize.step` = '{name}'"
        ours += f" and attributes.status = '{status}'" if status else ""
        newest = self._client.search_runs(
            [self.experiment], ours, order_by=["start_time DESC"], max_results=1
        )
        return str(newest[0].info.run_id) if newest else None

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        """Add tags to the run of a step."""
        for key, value in tags.items():
            if name in self._runs:
                self._client.set_tag(self._runs[name], key, value)

    def end(self, name: str, state: str, time: int) -> None:
        """Close the run of a step, unless the step has succeeded and closed it itself."""
        run_id = self._steps.pop(name, None)
        if run_id in (None, self.run_id):  # `finish` closes the whole run
            return
        if state != "succeeded" or self._client.get_run(run_id).info.status == "RUNNING":
            self._client.set_terminated(run_id, STATES[state], time)

    def finish(self, state: str, metrics: Mapping[str, float], time: int | None = None) -> None:
        """Close the pipeline's run and the open runs below it.

        A metric with the same ``time``, in milliseconds, is logged once.
        """
        for name in list(self._steps):
            self.end(name, "stopped", time or now())
        for name, value in metrics.items():
            self._client.log_metric(self.run_id, name, value, time, 0)
        self._client.set_terminated(self.run_id, STATES[state], time)


def chosen_artifacts(artifacts: Path, run_id: str) -> Path:
    """The artifact folder of a run whose id was chosen, known before the run exists."""
    return artifacts / CHOSEN / run_id


def artifact_folder(artifacts: Path, experiment: str) -> Path:
    """The artifact folder of an experiment, whose name is free text and must not lead elsewhere."""
    return artifacts / (re.sub(r"[^\w. -]|^[.]+", "_", experiment)[:200] or "_")


def listen(lines: queue.Queue[dict[str, Any] | None]) -> None:
    """Read the runner's lines; if the runner dies, exit, even during an import."""
    finished = False
    for line in sys.stdin:
        document = json.loads(line)
        finished = finished or document["do"] == "finish"
        lines.put(document)
    lines.put(None)
    if not finished and not STARTED.is_set():
        os._exit(1)


def serve(home: Path, lines: queue.Queue[dict[str, Any] | None]) -> None:
    """Handle documents until the run has ended."""
    begin = lines.get()
    if begin is None or begin["do"] != "begin":
        return
    STARTED.set()  # there is a run to close from now on
    record = Record(home, begin)
    answer(ready={"experiment_id": record.experiment, "run_id": record.run_id})
    while (document := lines.get()) is not None:
        carry_out(record, document)
        answer(done=document["number"])
        if document["do"] == "finish":
            return
    record.finish("interrupted", {})


def carry_out(record: Record, document: Mapping[str, Any]) -> None:
    """Handle one document."""
    do, step = document["do"], document.get("step", "")
    if do == "step":
        repeated, chosen = document.get("repeated", False), document.get("run_id")
        run_id = record.step(step, document["key"], document["time"], repeated=repeated, chosen=chosen)
        answer(step=step, run_id=run_id)
    elif do == "metrics":
        metric = document["metric"]
        answer(metrics={"step": step, "metric": metric, **record.metrics(step, metric)})
    elif do == "tag":
        record.tag(step, document["tags"])
    elif do == "end":
        record.end(step, document["state"], document["time"])
    elif do == "finish":
        record.finish(document["state"], document["metrics"], document["time"])


def now() -> int:
    """The time in milliseconds, as in MLflow."""
    return int(time.time() * 1000)


def stay_alive() -> None:
    """Report every second that this process is not stopped."""
    while True:
        answer(alive=True)
        time.sleep(ALIVE_SECONDS)


def answer(**document: Any) -> None:
    """Send a document to the runner, if it is still alive."""
    with ANSWERING, contextlib.suppress(OSError):
        ANSWERS.write(json.dumps(document) + "\n")
        ANSWERS.flush()


def reason(error: Exception) -> str:
    """Describe an error in one line; of an error of the database only its message, not the statement."""
    if isinstance(error, (SchemaError, UnreadableError)):
        return str(error)
    first = (str(error).strip().splitlines() or [""])[0][:160]
    cause = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
    if cause is not None:
        return f"its database: {cause}"[:160]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def main() -> None:
    """Serve one run; ``argv`` has the home folder."""
    sys.path.pop(0)  # the folder of this file, whose modules would hide those of libraries
    serve_runner(Path(sys.argv[1]))


def serve_runner(home: Path) -> None:
    """Serve the runner at the other ends of standard input and output, until its run has ended."""
    global ANSWERS  # noqa: PLW0603
    # The output of MLflow and its libraries must not mix with the answers.
    ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=listen, args=(lines,), daemon=True).start()
    threading.Thread(target=stay_alive, daemon=True).start()
    logging.disable(logging.WARNING)
    try:
        import mlflow  # noqa: F401 - imported while the runner still plans
    except ImportError as error:
        answer(unavailable=f"`{error.name or error}` is not installed: `pip install 'worldsize[run]'`")
        return
    try:
        serve(home, lines)
    except Exception as error:  # MLflow and its database raise many kinds; a run continues without them
        answer(unavailable=reason(error))


if __name__ == "__main__":
    main()
