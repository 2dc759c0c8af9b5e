"""One request to the management API, taken apart: what every resource's handler gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from worldsize.serving.workspace import Scope, Workspace


@dataclass(frozen=True, slots=True)
class Call:
    """A request for ``…/workspaces/{w}/{kind}[/{name}[/versions/{version}]][/{action}]``.

    ``kind``, ``action`` and the keys of ``query`` are in lower case, because clients write them in any case;
    names are decoded. ``base`` is the scheme and host that the client used, for links in the answer.
    """

    workspace: Workspace
    scope: Scope
    base: str
    method: str
    kind: str
    name: str | None = None
    label: str | None = None  # of …/labels/{label}
    versions: bool = False  # whether the path has a segment `versions`
    version: str | None = None
    action: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the resource itself."""
        parts = [self.scope.id, self.kind, self.name]
        if self.version is not None:
            parts += ["versions", self.version]
        return "/".join(part for part in parts if part is not None)


async def answer_beside(
    workspace: Workspace, method: str, handle: Callable[[], Response | Awaitable[Response]]
) -> Response:
    """Answer in a thread, beside the event loop, what does not wait itself.

    There a change sees and makes one state of the database.
    """
    answered: Response | Awaitable[Response]
    if asyncio.iscoroutinefunction(handle):
        answered = handle()
    elif method == "GET":
        answered = await asyncio.to_thread(handle)
    else:
        answered = await workspace.database.change(handle)
    return answered if isinstance(answered, Response) else await answered
