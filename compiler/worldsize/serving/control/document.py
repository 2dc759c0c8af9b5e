"""JSON as the management API reads and writes it: bodies judged key by key, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from worldsize.serving.errors import ServiceError, bad_request

JsonObject: TypeAlias = dict[str, Any]
LARGEST_BODY = 16 * 1024 * 1024  # bytes
_DEEPEST = 100  # levels of a body; Python's own limit is ten times this

_encode = msgspec.json.Encoder().encode


def answer(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_encode(document), status, headers, media_type="application/json")


def parse_object(text: bytes) -> JsonObject:
    """A request's body; an empty one is an empty object.

    Raises:
        ServiceError: 400, it is not a JSON object, or too deep; 413, it is too large.
    """
    if len(text) > LARGEST_BODY:
        message = f"The body is larger than {LARGEST_BODY // 2**20} MiB."
        raise ServiceError(413, "RequestEntityTooLarge", message)
    if not text.strip():
        return {}
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"The body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise bad_request("The body must be a JSON object.")
    if not is_shallow(document):
        raise bad_request(f"The body has more than {_DEEPEST} levels.")
    return document


async def read_object(request: Request) -> JsonObject:
    """The JSON object of a request's body, read no further than a body may be long.

    Raises:
        ServiceError: As :func:`parse_object` does.
    """
    text = bytearray()
    async for part in request.stream():
        text += part
        if len(text) > LARGEST_BODY:
            break
    return parse_object(bytes(text))


def is_shallow(document: object) -> bool:
    """Whether a JSON value has no more levels than any client's."""
    level: list[object] = [document]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner
    return not level


def take_object(body: Mapping[str, Any], key: str, where: str = "") -> JsonObject:
    """The object at ``key``, empty if it is missing or null.

    Raises:
        ServiceError: 400 that names the key.
    """
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"`{where}{key}` must be an object, not {_describe(value)}.")
    return value


def take_text(body: Mapping[str, Any], key: str, where: str = "", *, required: bool = False) -> str:
    """The text at ``key``, empty if it is missing or null.

    Raises:
        ServiceError: 400 that names the key, which has another type or is required.
    """
    value = body.get(key)
    if value is None or value == "":
        if required:
            raise bad_request(f"`{where}{key}` is required.")
        return ""
    if not isinstance(value, str):
        raise bad_request(f"`{where}{key}` must be text, not {_describe(value)}.")
    return value


def take_flag(body: Mapping[str, Any], key: str, where: str = "") -> bool:
    """The true or false at ``key``, false if it is missing or null.

    Raises:
        ServiceError: 400 that names the key.
    """
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise bad_request(f"`{where}{key}` must be true or false, not {_describe(value)}.")
    return bool(value)


def take_count(body: Mapping[str, Any], key: str, where: str = "", *, default: int) -> int:
    """The whole number from 0 at ``key``.

    Raises:
        ServiceError: 400 that names the key.
    """
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise bad_request(f"`{where}{key}` must be a whole number from 0, not {_describe(value)}.")
    return value


def take_texts(body: Mapping[str, Any], key: str, where: str = "") -> dict[str, str | None]:
    """The object of texts at ``key``, such as tags, empty if it is missing or null.

    Numbers and truth values become texts, as the service makes them: azure-ai-ml sends ``hash_version`` so.

    Raises:
        ServiceError: 400 that names the key.
    """
    entries = take_object(body, key, where)
    texts: dict[str, str | None] = {}
    for name, value in entries.items():
        if isinstance(value, (dict, list)):
            raise bad_request(f"`{where}{key}.{name}` must be text, not {_describe(value)}.")
        texts[name] = value if value is None or isinstance(value, str) else _encode(value).decode()
    return texts


def _describe(value: object) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")
