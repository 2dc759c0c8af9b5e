"""Answers where a request ends in an error of ours, and keeps the connection.

Starlette raises such an error again once it has answered, and uvicorn then closes the connection without
having said so: a client that keeps connections would lose its next request.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worldsize.serving.errors import ServiceError, explain_refused, log_error


class CrashGuard:
    """Turns exceptions into answers: the traceback goes to the log, the client learns where that is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception as error:
            if begun:  # half an answer: only a closed connection tells that the rest is missing
                raise
            log_error(f"{scope['method']} {scope['path']} failed", error)
            message = f"internal error ({type(error).__name__}): `serve/server.log` in the home has more"
            answer = ServiceError(500, "InternalServerError", message)
            if (reason := explain_refused(error)) is not None:
                message = f"nothing was done, because the disk of the workspace refused it: {reason}"
                answer = ServiceError(507, "InsufficientStorage", message)
            await answer.response()(scope, receive, send)
