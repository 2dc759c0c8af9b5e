"""The run history's paths: ``/history/v1.0/subscriptions/…``, and the data service's for outputs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.control.document import read_object
from worldsize.serving.errors import not_found
from worldsize.serving.history.data import read_ids, resolve_assets
from worldsize.serving.history.runs import show_details, show_run
from worldsize.serving.jobs import records
from worldsize.serving.jobs.cancel import cancel
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.translate.body import as_object
from worldsize.serving.workspace import Scope, Workspace

_PREFIX = "/subscriptions/{subscription}/{groups}/{group}/providers/{provider}/workspaces/{workspace}"
MAX_RUNS = 500  # of one answer
Handler = Callable[["RunRequest"], Awaitable[Response]]


class RunRequest:
    """A request to the run history."""

    def __init__(self, workspace: Workspace, request: Request) -> None:
        self.workspace, self.request = workspace, request
        values = request.path_params
        self.scope = Scope(values["subscription"], values["group"], values["workspace"])

    def job(self) -> JobRecord:
        """The job of the run that the path names.

        Raises:
            ServiceError: There is none.
        """
        return self.find(self.request.path_params["run"])

    def find(self, name: str) -> JobRecord:
        """The job of a run."""
        job = records.get_job(self.workspace.database, name)
        if job is None:
            raise not_found(f"Run `{name}`")
        return job

    async def body(self) -> Mapping[str, Any]:
        """The JSON object of the request; empty if there is none.

        Raises:
            ServiceError: It is too large, or not an object.
        """
        return await read_object(self.request)

    def show(self, job: JobRecord) -> Response:
        """The answer with a run."""
        return JSONResponse(show_run(self.workspace, self.scope, job))


async def _get_run(call: RunRequest) -> Response:
    return call.show(call.job())


async def _get_details(call: RunRequest) -> Response:
    return JSONResponse(show_details(call.workspace, call.scope, call.job()))


async def _get_children(call: RunRequest) -> Response:
    jobs = records.children(call.workspace.database, call.job().name)
    return JSONResponse({"value": [show_run(call.workspace, call.scope, job) for job in jobs]})


async def _list_runs(call: RunRequest) -> Response:
    experiment = call.request.path_params.get("experiment")
    jobs = records.list_jobs(call.workspace.database, view="All", experiment=experiment, limit=MAX_RUNS)
    return JSONResponse({"value": [show_run(call.workspace, call.scope, job) for job in jobs]})


async def _modify(call: RunRequest) -> Response:
    job, body = call.job(), await call.body()
    properties = dict(job.properties)
    for name in ("tags", "properties"):
        if body.get(name) is not None:
            properties[name] = {**(properties.get(name) or {}), **as_object(body[name], name)}
    if isinstance(body.get("description"), str):
        properties["description"] = body["description"]
    title, hidden = body.get("displayName") or body.get("name"), body.get("hidden")
    records.update_job(
        call.workspace.database,
        job.name,
        properties=properties,
        archived=None if hidden is None else bool(hidden),
        display_name=str(title) if title else None,
    )
    return call.show(call.job())


async def _cancel(call: RunRequest) -> Response:
    return call.show(await cancel(call.workspace, call.job().name))


async def _get_data(call: RunRequest) -> Response:
    name = (await call.body()).get("runId")
    run = show_run(call.workspace, call.scope, call.find(str(name)))
    return JSONResponse({"runMetadata": run, "runDefinition": {}, "jobSpecification": None})


async def _resolve(call: RunRequest) -> Response:
    found = resolve_assets(call.workspace, call.scope, read_ids(await call.body()))
    return JSONResponse({"values": found})


async def _resolve_models(call: RunRequest) -> Response:
    found = resolve_assets(call.workspace, call.scope, read_ids(await call.body()))
    return JSONResponse({"values": {name: {"path": each["uri"], **each} for name, each in found.items()}})


async def _accept_events(call: RunRequest) -> Response:
    """Events are what clients tell of their own runs, such as a heartbeat; the states are known here."""
    call.job()
    await call.body()
    return JSONResponse({})


async def _list_services(call: RunRequest) -> Response:
    """The services of a job's node, such as a debugger that the cluster lets in: there is none here."""
    call.job()
    return JSONResponse({"instances": {}})


_RUN_PATHS: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "", _get_run),
    ("PATCH", "", _modify),
    ("GET", "/details", _get_details),
    ("GET", "/children", _get_children),
    ("POST", "/cancel", _cancel),
    ("POST", "/events", _accept_events),
    ("GET", "/serviceinstances/{node}", _list_services),
)
_HOLDERS = ("", "/experiments/{experiment}", "/experimentids/{experiment}")


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes of the run history of jobs."""
    history = f"/history/v1.0{_PREFIX}"
    found: list[BaseRoute] = []
    for holder in _HOLDERS:
        found.append(_route(workspace, "GET", f"{history}{holder}/runs", _list_runs))
        for method, action, handler in _RUN_PATHS:
            found.append(_route(workspace, method, f"{history}{holder}/runs/{{run}}{action}", handler))
    found.append(_route(workspace, "POST", f"{history}/rundata", _get_data))
    data = f"/data/v1.0{_PREFIX}/dataversion/batchGetResolvedUris"
    models = f"/modelregistry/v1.0{_PREFIX}/models/batchGetResolvedUris"
    found.append(_route(workspace, "POST", data, _resolve))
    found.append(_route(workspace, "POST", models, _resolve_models))
    return found


def _route(workspace: Workspace, method: str, path: str, handler: Handler) -> BaseRoute:
    async def answer(request: Request) -> Response:
        return await handler(RunRequest(workspace, request))

    return Route(path, answer, methods=[method])
