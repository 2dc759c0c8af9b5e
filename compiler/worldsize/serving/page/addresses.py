"""The address of each page."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request
from nicegui import ui

from worldsize.serving.page.views import assets, compare, compute, job, jobs, resubmit, schedules
from worldsize.serving.workspace import Workspace


def add_pages(workspace: Workspace) -> None:
    """Add all pages to NiceGUI's application."""

    def list_jobs(request: Request) -> None:
        jobs.draw_jobs(workspace, request.query_params)

    async def show_job(name: str, view: str = "") -> None:
        await job.draw_job(workspace, name, view)

    def resubmit_job(name: str) -> None:
        resubmit.draw_resubmit(workspace, name)

    async def compare_jobs(jobs: str = "") -> None:
        await compare.draw_comparison(workspace, jobs.split(",") if jobs else [])

    def list_compute() -> None:
        compute.draw_compute(workspace)

    def list_schedules() -> None:
        schedules.draw_schedules(workspace)

    def show_schedule(name: str) -> None:
        schedules.draw_schedule(workspace, name)

    pages: dict[str, Callable[..., object]] = {
        "/": list_jobs,
        "/jobs": list_jobs,
        "/jobs/{name}": show_job,
        "/jobs/{name}/resubmit": resubmit_job,
        "/compare": compare_jobs,
        "/compute": list_compute,
        "/schedules": list_schedules,
        "/schedules/{name}": show_schedule,
    }
    for address, draw in pages.items():
        ui.page(address, response_timeout=30)(draw)
    for kind in assets.TITLES:
        _add_assets(workspace, kind)


def _add_assets(workspace: Workspace, kind: str) -> None:
    async def list_assets(text: str = "") -> None:
        await assets.draw_assets(workspace, kind, text)

    async def show_asset(name: str, version: str = "") -> None:
        await assets.draw_asset(workspace, kind, name, version)

    ui.page(f"/{kind}")(list_assets)
    ui.page(f"/{kind}/{{name}}", response_timeout=30)(show_asset)
