"""Jobs of a workspace as the records that ``worldsize runs`` and ``worldsize show`` print."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from msgspec import Struct

from worldsize.azureml import binding
from worldsize.planning.estimates import prediction
from worldsize.planning.estimates.calibration import SPEED, Speed
from worldsize.remote import logs
from worldsize.remote.errors import RemoteError, without_refusals
from worldsize.remote.logs import error_of, parse_time, run_state, seconds_of, step_state
from worldsize.remote.rest import Rest
from worldsize.running.model.results import Registration
from worldsize.running.record.details import name_values
from worldsize.running.record.history import RunRecord, StepRecord

THREADS = 8  # requests at a time
MAX_POINTS = 100_000  # of one metric
MAX_DEPTH = 4  # pipelines inside pipelines


class _Logged(Struct, frozen=True):
    """What a step has logged to MLflow."""

    metrics: Mapping[str, float]
    parameters: Mapping[str, str]


class RemoteStep(Struct):
    """A step of a job: its node in the job's body, and its run once there is one."""

    name: str
    node: Mapping[str, Any] = {}
    run: Mapping[str, Any] = {}
    bound: Mapping[str, Any] = {}  # the pipeline's values by their expressions

    @property
    def id(self) -> str | None:
        """The name of its run."""
        name = self.run.get("runId")
        return str(name) if name else None

    @property
    def processes(self) -> int:
        """How many processes the service starts for it; 1 if the body does not say."""
        resources, distribution = self.node.get("resources") or {}, self.node.get("distribution") or {}
        instances = _count(_member(resources, "instance_count"))
        if kind := _member(distribution, "worker_count"):
            return _count(kind) + _count(_member(distribution, "parameter_server_count"), 0)
        return instances * _count(_member(distribution, "process_count_per_instance"))

    def record(self) -> StepRecord:
        """The step as a record."""
        inputs = self.node.get("inputs") or {}
        values = {name: port.get("value") for name, port in inputs.items() if isinstance(port, dict)}
        expressions = (part for value in values.values() for part in binding.find_expressions(str(value)))
        needs = (part.step for part in expressions if part.step is not None)
        values = {name: self.bound.get(str(value), value) for name, value in values.items()}
        return StepRecord(
            name=self.name,
            state=step_state(self.run),
            seconds=seconds_of(self.run),
            started=parse_time(self.run.get("startTimeUtc")),
            attempts=1 if self.run else 0,
            reason=error_of(self.run),
            needs=tuple(dict.fromkeys(needs)),
            parameters={
                name: str(value)
                for name, value in values.items()
                if value is not None and not str(value).startswith("${{parent.")
            },
            processes=tuple(f"rank-{rank}" for rank in range(self.processes)),
        )


class RemoteJob(Struct, dict=True, eq=False):
    """A job of a workspace, with the details that ``worldsize show`` prints."""

    rest: Rest
    document: Mapping[str, Any]  # of the management API
    run: Mapping[str, Any]  # of the run history
    steps: dict[str, RemoteStep]

    @property
    def name(self) -> str:
        """The job's name, which is its id in the workspace."""
        return str(self.document["name"])

    @property
    def properties(self) -> Mapping[str, Any]:
        """The job's body."""
        return cast("Mapping[str, Any]", self.document["properties"])

    @property
    def status(self) -> str:
        """Azure's word for its state."""
        return str(self.run.get("status") or self.properties.get("status"))

    @property
    def title(self) -> str:
        """What people call it: its display name, or its experiment where the service made up the name."""
        title = self.properties.get("displayName")
        return str(
            title if title and title != self.name else self.properties.get("experimentName") or self.name
        )

    @property
    def record(self) -> RunRecord:
        """The job as a record; the name of its ``root`` is the job's."""
        steps = {name: step.record() for name, step in self.steps.items()}
        has_failed = any(step.state == "failed" for step in steps.values())
        return RunRecord(
            root=Path(self.name),
            state=run_state(self.status),
            pipeline=self.title,
            started=parse_time(self.run.get("startTimeUtc")),
            seconds=seconds_of(self.run),
            reason=None if has_failed else error_of(self.run),
            steps=steps,
        )

    def links(self) -> Mapping[str, str]:
        """The experiment, and the job's page."""
        links = {"experiment": self.properties.get("experimentName"), "studio": find_studio(self.properties)}
        return {name: str(link) for name, link in links.items() if link}

    def outputs(self) -> Mapping[str, str]:
        """The ids of the data that the job itself has written."""
        return _output_ids(self.run)

    def registrations(self) -> Sequence[Registration]:
        """The models that the steps have registered, or did not."""
        models = []
        for step in self.steps.values():
            inputs = step.node.get("inputs") or {}
            is_register = inputs.keys() >= {"model", "metrics"}
            if is_register and step.id is not None and step_state(step.run) == "succeeded":
                name = str((inputs.get("model_name") or {}).get("value") or step.name)
                with without_refusals():  # the log is gone
                    models.append(parse_registration(logs.last_lines(self.rest, step.id, LAST_LINES), name))
        return [model for model in models if model is not None]

    def fitted(self) -> Mapping[str, Fitted]:
        """The steps that ran with other processes than planned."""
        if all(step.processes == 1 for step in self.steps.values()):
            return {}
        with without_refusals():  # a log that is gone says nothing
            files = self.rest.run_details(self.name).get("logFiles") or {}
            followers = [logs.RemoteFollower(self.rest, files[path]) for path in NOTICES if path in files]
            return parse_fitted(line for follower in followers for line in follower.lines(final=True))
        return {}

    def step_outputs(self, step: StepRecord) -> Mapping[str, str]:
        """The ids of the data that a step has written."""
        return _output_ids(self.steps[step.name].run)

    def metrics(self, step: StepRecord) -> Mapping[str, float]:
        """The newest values of the metrics that the step has logged to MLflow."""
        return self._find_logged(self.steps[step.name]).metrics

    def run_metrics(self) -> dict[str, float]:
        """The newest values by name, and by ``step.name``; of several steps the last one counts."""
        return name_values((name, self._find_logged(step).metrics) for name, step in self.steps.items())

    def last_lines(self, step: StepRecord, count: int) -> list[str]:
        """The end of the log of a step that failed."""
        name = self.steps[step.name].id
        if name is None or step.state != "failed":
            return []
        return logs.last_lines(self.rest, name, count)

    def speeds(self) -> dict[str, Speed]:
        """The speed of each step that has logged one to MLflow: its newest."""
        return {
            name: Speed(logged.metrics[SPEED], 0.0, logged.parameters)
            for name, step in self.steps.items()
            if SPEED in (logged := self._find_logged(step)).metrics
        }

    def predicted_speeds(self) -> dict[str, Speed]:
        """As :meth:`speeds`, without a request for a job of which no speed was predicted."""
        all_inputs = (step.node.get("inputs") or {} for step in self.steps.values())
        return self.speeds() if any(prediction.SPEED in inputs for inputs in all_inputs) else {}

    def parameters(self, step: StepRecord) -> Mapping[str, str]:
        """The parameters that the step has logged to MLflow."""
        return self._find_logged(self.steps[step.name]).parameters

    def histories(self, step: StepRecord, limit: int) -> dict[str, list[tuple[float, float]]]:
        """The training steps and values of the metrics that the step has logged, of at most ``limit``."""
        metrics = list(self.metrics(step))[:limit]
        with ThreadPoolExecutor(THREADS) as pool:
            read = partial(self._read_history, str(self.steps[step.name].id))
            return dict(zip(metrics, pool.map(read, metrics), strict=True))

    def artifacts(self, step: StepRecord, paths: Sequence[str]) -> dict[str, bytes]:
        """The files that the step has logged to MLflow, of those that are asked for.

        A step that has logged no metric and no parameter is not asked.
        """
        name, logged = self.steps[step.name].id, self._find_logged(self.steps[step.name])
        if name is None or not (logged.metrics or logged.parameters):
            return {}
        with ThreadPoolExecutor(THREADS) as pool:
            contents = zip(paths, pool.map(partial(self.rest.artifact, name), paths), strict=True)
            return {path: content for path, content in contents if content is not None}

    def _find_logged(self, step: RemoteStep) -> _Logged:
        return self._logged.get(step.id or "", _Logged({}, {}))

    def _read_history(self, name: str, metric: str) -> list[tuple[float, float]]:
        from azure.core.exceptions import HttpResponseError

        try:
            points = [
                (float(point.get("step") or 0), float(point["value"]))
                for point in itertools.islice(self.rest.metric_history(name, metric), MAX_POINTS)
            ]
        except (HttpResponseError, KeyError, TypeError, ValueError):  # its last value is shown without it
            return []
        return sorted(dict(points).items())

    @cached_property
    def _logged(self) -> Mapping[str, _Logged]:
        names = [step.id for step in self.steps.values() if step.id is not None]
        with ThreadPoolExecutor(THREADS) as pool:
            return dict(zip(names, pool.map(self._read_logged, names), strict=True))

    def _read_logged(self, name: str) -> _Logged:
        data: Mapping[str, Any] = {}
        with without_refusals():  # nothing was logged
            data = self.rest.tracked_run(name).get("data") or {}
        metrics = {str(metric["key"]): float(metric["value"]) for metric in data.get("metrics") or []}
        parameters = {str(param["key"]): str(param.get("value")) for param in data.get("params") or []}
        return _Logged(metrics, parameters)


def find_studio(properties: Mapping[str, Any]) -> str | None:
    """The address of a job's page, by its body."""
    studio = (properties.get("services") or {}).get("Studio") or {}
    return studio.get("endpoint")


def read_job(rest: Rest, name: str) -> RemoteJob:
    """Read a job and its steps; ``last`` is the name of the newest.

    Raises:
        HttpResponseError: There is no such job, or the service refuses to show it.
    """
    if name != "last":
        return _read_run(rest, rest.manage(f"/jobs/{quote(name, safe='')}"))
    jobs = _list_jobs(rest, 1)
    if not jobs:
        raise RemoteError(f"there is no job in {rest.names.shown}")
    return _read_run(rest, jobs[-1])


def _read_run(rest: Rest, document: Mapping[str, Any]) -> RemoteJob:
    run = rest.run(document["name"])
    return RemoteJob(rest, document, run, read_steps(rest, document, run))


def refresh(job: RemoteJob) -> RemoteJob:
    """The job as it is now; its body does not change, and is not read again."""
    return _read_run(job.rest, job.document)


def list_jobs(rest: Rest, last: int | None) -> list[RemoteJob]:
    """The workspace's ``last`` jobs, the newest last; all of them by default."""
    documents = _list_jobs(rest, last)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda document: _summarise(rest, document), documents))


def _list_jobs(rest: Rest, last: int | None) -> list[Mapping[str, Any]]:
    """The bodies of jobs, the oldest first; the service lists the newest first."""
    documents = list(itertools.islice(rest.list("/jobs", listViewType="ActiveOnly"), last))
    return sorted(documents, key=lambda document: str((document.get("systemData") or {}).get("createdAt")))


def _summarise(rest: Rest, document: Mapping[str, Any]) -> RemoteJob:
    with without_refusals():
        return _read_run(rest, document)
    return RemoteJob(rest, document, {}, {})  # the run history forgets what the list still has


def read_steps(rest: Rest, document: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, RemoteStep]:
    """The steps of a job in the order of its body: those of a pipeline, else the job itself."""
    properties = document["properties"]
    nodes = properties.get("jobs")
    if not isinstance(nodes, dict):
        name = str(properties.get("displayName") or document["name"])
        return {name: RemoteStep(name, properties, run)}
    inputs = properties.get("inputs") or {}
    values = {
        f"${{{{parent.inputs.{name}}}}}": port.get("value", port.get("uri")) for name, port in inputs.items()
    }
    steps = {name: RemoteStep(name, node, bound=values) for name, node in nodes.items()}
    shown = ((name, node.get("display_name")) for name, node in nodes.items() if isinstance(node, Mapping))
    titles = {str(title): name for name, title in shown if title}
    for title, child in _walk_children(rest, str(document["name"])):
        outer, dot, inner = title.partition(".")
        # A run bears the display name of its step, where that has one.
        name = title if title in steps else f"{titles.get(outer, outer)}{dot}{inner}"
        steps.setdefault(name, RemoteStep(name)).run = child
    return steps


def _walk_children(
    rest: Rest, parent: str, prefix: str = "", depth: int = 1
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The runs of the steps of a pipeline by their names; a step of an inner pipeline is ``outer.inner``."""
    runs = sorted(rest.children(parent), key=lambda run: str(run.get("createdUtc")))
    for run in runs:
        name = str(run.get("displayName") or run["runId"])
        name = name if name.startswith(prefix) else prefix + name
        yield name, run
        if "pipelinerun" in str(run.get("runType")).lower() and depth < MAX_DEPTH:
            yield from _walk_children(rest, str(run["runId"]), f"{name}.", depth + 1)


def _output_ids(run: Mapping[str, Any]) -> dict[str, str]:
    outputs = run.get("outputs") or {}
    return {
        name: str(output["assetId"])
        for name, output in outputs.items()
        if isinstance(output, dict) and output.get("assetId")
    }


def _member(mapping: Mapping[str, Any], name: str) -> Any:
    """A member that steps of pipelines have in snake case, and other jobs in camel case."""
    first, *others = name.split("_")
    return mapping.get(name, mapping.get(first + "".join(word.title() for word in others)))


def _count(value: Any, default: int = 1) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


LAST_LINES = 40  # of a step that registers a model
# Where `worldsize serve` writes how the steps of a pipeline and of a command run on its machine.
NOTICES = ("logs/azureml/executionlogs.txt", "user_logs/std_log_notices.txt")
_REGISTERED = re.compile(r"registered (?P<name>\S.{0,250}) version (?P<version>\d{1,9})")
_DECLINED = re.compile(r"nothing is registered: (?P<reason>.{1,1000})")
_FITTED = re.compile(
    r"(?:\[[^]]{1,40}\] )?(?P<step>[\w.-]{1,255}): "
    r"(?P<text>planned for \d{1,9} (?:process|replica)e?s? .{0,200}?running (?P<count>\d{1,9}) here.{0,1000})"
)


class Fitted(NamedTuple):
    """A step that runs with another number of processes than planned."""

    processes: int
    text: str  # both numbers, and what follows for the batch


def parse_registration(lines: Iterable[str], name: str) -> Registration | None:
    """What the built-in component `register` has written: the version, or why there is none."""
    for line in lines:
        if match := _REGISTERED.fullmatch(line):
            return Registration(match["name"], match["version"])
        if match := _DECLINED.fullmatch(line):
            return Registration(name, None, match["reason"])
    return None


def parse_fitted(lines: Iterable[str]) -> dict[str, Fitted]:
    """The steps that run with other processes than planned, by name."""
    matches = filter(None, map(_FITTED.fullmatch, lines))
    return {match["step"]: Fitted(int(match["count"]), match["text"]) for match in matches}
