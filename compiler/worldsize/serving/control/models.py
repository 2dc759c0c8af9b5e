"""The management API of models, which MLflow's registry has too."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.responses import Response

from worldsize.serving.control import asset_calls
from worldsize.serving.control.call import Call, answer_beside
from worldsize.serving.tracking.models import sync_models


async def handle(call: Call) -> Response:
    """Answer a request for models."""
    await asyncio.to_thread(sync_models, call.workspace)
    response = await answer_beside(call.workspace, call.method, partial(asset_calls.handle, call))
    if call.method not in ("GET", "HEAD"):
        await asyncio.to_thread(sync_models, call.workspace)
    return response
