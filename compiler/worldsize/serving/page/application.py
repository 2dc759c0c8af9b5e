"""The pages and their addresses, as one application of NiceGUI."""

from __future__ import annotations

import importlib
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from worldsize.serving.home import PRIVATE_FOLDER
from worldsize.serving.workspace import Workspace

STYLE = Path(__file__).with_name("static") / "page.css"


def import_pages(workspace: Workspace) -> None:
    """Import NiceGUI and the views, which takes most of a second."""
    storage = workspace.home.state / "page"  # not the working folder
    storage.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    os.environ["NICEGUI_STORAGE_PATH"] = str(storage)
    importlib.import_module("worldsize.serving.page.addresses")


def make_application(workspace: Workspace) -> tuple[object, AbstractAsyncContextManager[object]]:
    """The application of a workspace's page, and what it runs while it is served; after :func:`import_pages`.

    NiceGUI has one application in a process, so there is one workspace.
    """
    from fastapi import FastAPI
    from nicegui import ui

    from worldsize.serving.page.addresses import add_pages

    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_pages(workspace)
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
