"""The address of each page, as one application of NiceGUI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from pathlib import Path

from fastapi import FastAPI
from nicegui import app, ui

from worldsize.serving.errors import ServiceError
from worldsize.serving.page.views import assets, frame, job, jobs, schedules
from worldsize.serving.workspace import Workspace

STYLE = Path(__file__).with_name("static") / "page.css"


def make_application(workspace: Workspace) -> tuple[object, AbstractAsyncContextManager[object]]:
    """The application of a workspace's page, and what it runs while it is served.

    NiceGUI has one application in a process, so there is one workspace.
    """
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _add_pages(workspace)
    ui.add_css(STYLE, shared=True)
    ui.run_with(
        application,
        title="Worldsize",
        dark=None,  # as the browser prefers
        language="en-US",
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=30.0,
        favicon="🌐",
    )
    return application, application.router.lifespan_context(application)


def _add_pages(workspace: Workspace) -> None:
    """Add all pages to NiceGUI's application; what an address and its query name are their parameters."""
    pages: dict[str, Callable[..., object]] = {
        "/": partial(jobs.draw_jobs, workspace),
        "/jobs": partial(jobs.draw_jobs, workspace),
        "/jobs/{name}": partial(job.draw_job, workspace),
        "/jobs/{name}/resubmit": partial(jobs.draw_resubmit, workspace),
        "/compare": partial(jobs.draw_comparison, workspace),
        "/compute": partial(assets.draw_compute, workspace),
        "/schedules": partial(schedules.draw_schedules, workspace),
        "/schedules/{name}": partial(schedules.draw_schedule, workspace),
    }
    for kind in assets.TITLES:
        pages[f"/{kind}"] = partial(assets.draw_assets, workspace, kind)
        pages[f"/{kind}/{{name}}"] = partial(assets.draw_asset, workspace, kind)
    app.on_page_exception(partial(_show_failure, workspace))
    for address, draw in pages.items():
        ui.page(address, response_timeout=30)(_say_failure(workspace, draw))


def _say_failure(workspace: Workspace, draw: Callable[..., object]) -> Callable[..., Awaitable[None]]:
    """A page that says why it has no content, such as that its record cannot be read."""

    @wraps(draw)
    async def drawn(*arguments: object, **named: object) -> None:
        try:
            drawing = draw(*arguments, **named)
            if isinstance(drawing, Awaitable):
                await drawing
        except ServiceError as error:
            ui.status_code(error.status)
            _show_failure(workspace, error)

    return drawn


def _show_failure(workspace: Workspace, error: Exception) -> None:
    """In place of a page that failed."""
    with frame.frame(workspace, "Cannot be shown", ""):
        frame.error(str(error) if isinstance(error, ServiceError) else f"{type(error).__name__}: {error}")
