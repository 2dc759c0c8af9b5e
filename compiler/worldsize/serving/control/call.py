"""One request to the management API: taken apart, its JSON judged key by key, and answered."""

from __future__ import annotations

import asyncio
import getpass
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, unquote_to_bytes, urlencode
from uuid import uuid4

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from worldsize.serving.database import MOST_VALUES, TOO_MANY, Database, Item, check_values, use_each
from worldsize.serving.errors import ServiceError, answer, bad_request, encode, not_found
from worldsize.serving.workspace import LOCATION, Scope, Workspace

PROVIDER = "microsoft.machinelearningservices"
_LONGEST = 1024  # characters of one segment


class ResourcePath(msgspec.Struct, frozen=True):
    """A path ``…/{container}/{workspace}/{kind}[/{name}[/versions/{version}]][/{action}]``.

    ``container`` is ``workspaces`` or ``registries``. What the path does not have is empty. ``kind`` and
    ``action`` are in lower case, because clients write them in any case. Names are decoded.
    """

    scope: Scope
    container: str = "workspaces"
    kind: str = ""
    name: str = ""
    label: str = ""  # of …/labels/{label}
    versions: bool = False  # whether the path has a segment `versions`
    version: str = ""
    action: str = ""


class Call(ResourcePath, frozen=True, kw_only=True):
    """A request; ``base`` is the scheme and host that the client used, for links in the answer."""

    workspace: Workspace
    base: str
    method: str
    query: Mapping[str, str] = {}  # its keys in lower case
    body: Mapping[str, Any] = {}

    @property
    def database(self) -> Database:
        """The workspace's database."""
        return self.workspace.database

    @property
    def id(self) -> str:
        """The id of the resource itself."""
        version = f"versions/{self.version}" if self.version else ""
        return "/".join(part for part in (self.scope.id, self.kind, self.name, version) if part)

    @property
    def operation(self) -> str:
        """The method, and what the path names: ``GET all``, ``PUT version`` or ``POST one/listsecrets``."""
        if not self.name:
            place = "all"
        elif self.label:
            place = "label"
        elif self.versions:
            place = "version" if self.version else "versions"
        else:
            place = "one"
        return f"{self.method} {place}" + (f"/{self.action}" if self.action else "")


# Of a document; of a response where its status or headers matter; or of what waits for one of both.
Handler: TypeAlias = Callable[[Call], object]
Handlers: TypeAlias = Mapping[str, Handler]  # by the operation of the call


def find_handler(call: Call, handlers: Handlers) -> Handler:
    """The handler of a call's operation.

    Raises:
        ServiceError: 404, there is no such action; 405, the method is not allowed.
    """
    if (handler := handlers.get(call.operation)) is not None:
        return handler
    if call.action:
        raise not_found(f"The action `{call.action[:60]}` of {call.kind}")
    kind = call.kind or "a workspace"
    raise ServiceError(405, "MethodNotAllowed", f"{call.method} of {kind} is not allowed.")


async def answer_beside(workspace: Workspace, method: str, handle: Callable[[], object]) -> Response:
    """Answer in a thread, beside the event loop, what does not wait itself.

    There a change sees and makes one state of the database.
    """

    def respond() -> object:
        answered = handle()
        return answered if isinstance(answered, Response | Awaitable) else answer(answered)

    answered: object
    if asyncio.iscoroutinefunction(handle):
        answered = handle()
    elif method == "GET":
        answered = await asyncio.to_thread(respond)
    else:
        answered = await workspace.database.change(respond)
    if isinstance(answered, Awaitable):
        answered = await answered
    return answered if isinstance(answered, Response) else answer(answered)


def operation_headers(call: Call) -> Mapping[str, str]:
    """``Azure-AsyncOperation`` and ``Location`` of the operation that a request began.

    It is over when the answer is sent; with these headers a client polls as it does in Azure.
    """
    base = (
        f"{call.base}/subscriptions/{call.scope.subscription}/providers"
        f"/Microsoft.MachineLearningServices/locations/{LOCATION}"
    )
    name = uuid4()
    return {
        "Azure-AsyncOperation": f"{base}/mfeOperationsStatus/{name}?api-version=2024-10-01",
        "Location": f"{base}/mfeOperationResults/{name}?api-version=2024-10-01",
    }


def split_path(raw: bytes) -> list[str]:
    """The decoded segments of a path as it was sent; an encoded slash stays inside its segment.

    Raises:
        ServiceError: 400, a segment is not UTF-8, has control characters or is too long.
    """
    segments = []
    for part in raw.split(b"?")[0].strip(b"/").split(b"/"):
        try:
            segment = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise bad_request("The path is not UTF-8.") from None
        if len(segment) > _LONGEST or any(ord(letter) < 32 or letter == "\x7f" for letter in segment):
            raise bad_request("The path has a segment that cannot be a name.")
        segments.append(segment)
    return segments


def parse_resource(segments: Sequence[str]) -> ResourcePath | None:
    """The resource of a workspace or registry; None if the path is of something else.

    The segments begin with ``subscriptions``; words of Azure Resource Manager are in any case.
    """
    words = [segment.lower() for segment in segments]
    if len(segments) < 8 or "" in segments[:8]:
        return None
    if words[:5:2] != ["subscriptions", "resourcegroups", "providers"] or words[5] != PROVIDER:
        return None
    if words[6] not in ("workspaces", "registries"):
        return None
    return _parse_inner(Scope(segments[1], segments[3], segments[7]), words[6], segments[8:])


def _parse_inner(scope: Scope, container: str, inner: Sequence[str]) -> ResourcePath:
    if "" in inner:
        raise ServiceError(404, "InvalidResourceName", "The path has an empty segment.")
    if not inner:
        return ResourcePath(scope, container)
    kind, name, rest = inner[0].lower(), "".join(inner[1:2]), list(inner[2:])
    word = rest[0].lower() if rest else ""
    versions, version, label = word == "versions", "", ""
    if versions:
        version, rest = "".join(rest[1:2]), rest[2:]
    elif word == "labels" and len(rest) > 1:
        label, rest = rest[1], rest[2:]
    return ResourcePath(scope, container, kind, name, label, versions, version, "/".join(rest).lower())


JsonObject: TypeAlias = dict[str, Any]
Value = TypeVar("Value")
LARGEST_BODY = 4 << 20  # bytes, as Azure Resource Manager has it
_SMALL = 64 << 10  # bytes of a body that is read beside any number of others, and parsed at once
_LARGE_AT_ONCE = 8
BODY_SECONDS = 30.0  # in which a body of JSON must have come
# "Service limits in Azure Machine Learning" on Microsoft Learn, where they are those of runs.
MOST_TAGS, LONGEST_KEY, LONGEST_TAG = 50, 100, 1000
LONGEST_NAME, LONGEST_DESCRIPTION = 256, 5000
_TEXTS = {"displayName": LONGEST_NAME, "experimentName": LONGEST_NAME}

CREATED = "2026-01-01T00:00:00.000000Z"  # of what every workspace has
_MARGIN = timedelta(days=400)
_large: set[object] = set()  # the requests whose large bodies are being read


def _parse_object(text: bytes) -> JsonObject:
    """A request's body; an empty one is an empty object."""
    if len(text) > LARGEST_BODY:
        raise _too_large(LARGEST_BODY)
    if not text.strip():
        return {}
    if sum(map(text.count, (b",", b"[", b"{"))) > 4 * MOST_VALUES:  # before it fills the memory
        raise bad_request(TOO_MANY)
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"The body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise bad_request("The body must be a JSON object.")
    check_values(document)
    return document


def _too_large(most: int) -> ServiceError:
    size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
    return ServiceError(413, "RequestEntityTooLarge", f"The body is larger than {size}.")


async def read_object(request: Request) -> JsonObject:
    """The JSON object of a request's body.

    Raises:
        ServiceError: As :func:`_parse_object` and :func:`read_body` do.
    """
    text = await read_body(request)
    return _parse_object(text) if len(text) < _SMALL else await asyncio.to_thread(_parse_object, text)


async def read_body(request: Request, most: int = LARGEST_BODY) -> bytes:
    """The body of a request, read no further than it may be long; few large ones at a time.

    Raises:
        ServiceError: 408, it does not come in time; 413, it has more than ``most`` bytes.
    """
    parts, body = request.stream(), bytearray()

    async def read(until: int) -> None:
        async for part in parts:
            body.extend(part)
            if len(body) > until:
                return

    async def read_all() -> None:
        await read(min(_SMALL, most))
        if _SMALL < len(body) <= most:
            while len(_large) >= _LARGE_AT_ONCE:
                await asyncio.sleep(0.01)
            _large.add(request)
            await read(most)

    try:
        await asyncio.wait_for(read_all(), BODY_SECONDS)
    except asyncio.TimeoutError:
        message = f"The body did not come within {BODY_SECONDS:.0f} seconds."
        raise ServiceError(408, "RequestTimeout", message) from None
    finally:
        _large.discard(request)
    if len(body) > most:
        raise _too_large(most)
    return bytes(body)


# Each `take_` function raises a ServiceError of status 400 that names a wrong key.


def take_about(
    properties: Mapping[str, Any], where: str = "properties.", *, description: int = LONGEST_DESCRIPTION
) -> JsonObject:
    """What people say of a record of any kind, no longer than Azure takes it: ``tags`` and ``properties``.

    ``description`` is the most characters of the description.
    """
    for key, most in _TEXTS.items():
        take_text(properties, key, where, most=most)
    take_text(properties, "description", where, most=description)
    return {key: take_texts(properties, key, where) for key in ("tags", "properties")}


def _take(body: Mapping[str, Any], key: str, where: str, kind: type[Value], words: str) -> Value | None:
    value = body.get(key)
    if value is not None and not isinstance(value, kind):
        raise bad_request(f"`{where}{key}` must be {words}, not {_describe(value)}.")
    return value


def take_object(body: Mapping[str, Any], key: str, where: str = "") -> JsonObject:
    """The object at ``key``, empty if it is missing or null."""
    return _take(body, key, where, dict, "an object") or {}


def take_text(
    body: Mapping[str, Any], key: str, where: str = "", *, required: bool = False, most: int = LARGEST_BODY
) -> str:
    """The text at ``key``, which may be required and is not too long; empty if it is missing or null."""
    text = _take(body, key, where, str, "text") or ""
    if required and not text:
        raise bad_request(f"`{where}{key}` is required.")
    if len(text) > most:
        raise bad_request(f"`{where}{key}` has {len(text):,} characters, of which {most:,} are allowed.")
    return text


def take_time(text: str, where: str, zone: tzinfo = timezone.utc) -> datetime:
    """A time of ISO 8601; without an offset on the clock of ``zone``.

    One so near the beginning of the calendar that no week and no time zone can be counted from it is wrong.
    """
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "zZ" else text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        (moment - _MARGIN).astimezone(timezone.utc), moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        message = (
            f"`{where}` is `{text[:60]}`; write a time as `2026-03-01T03:00:00`, in the years 3 to 9999."
        )
        raise bad_request(message) from None
    return moment


def take_flag(body: Mapping[str, Any], key: str, where: str = "") -> bool:
    """The true or false at ``key``, false if it is missing or null."""
    return _take(body, key, where, bool, "true or false") or False


def take_count(body: Mapping[str, Any], key: str, where: str = "", *, default: int) -> int:
    """The whole number from 0 at ``key``."""
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise bad_request(f"`{where}{key}` must be a whole number from 0, not {_describe(value)}.")
    return value


def take_texts(body: Mapping[str, Any], key: str, where: str = "") -> dict[str, str | None]:
    """The object of texts at ``key``, such as tags, empty if it is missing or null.

    Numbers and truth values become texts, as the service makes them: azure-ai-ml sends ``hash_version`` so.
    """
    entries = take_object(body, key, where)
    if len(entries) > MOST_TAGS:
        raise bad_request(f"`{where}{key}` has {len(entries):,} entries, of which {MOST_TAGS} are allowed.")
    texts: dict[str, str | None] = {}
    for name, value in entries.items():
        if isinstance(value, (dict, list)):
            raise bad_request(f"`{where}{key}.{name}` must be text, not {_describe(value)}.")
        text = value if value is None or isinstance(value, str) else encode(value).decode()
        if len(name) > LONGEST_KEY or len(text or "") > LONGEST_TAG:
            limits = f"{LONGEST_KEY} for a key and {LONGEST_TAG:,} for a value"
            raise bad_request(f"`{where}{key}.{name[:LONGEST_KEY]}` is too long: {limits} are allowed.")
        texts[name] = text
    return texts


def _describe(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


@cache
def user_name() -> str:
    """The user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a process without an entry in the list of users
        return "worldsize"


def describe_resource(
    call: Call,
    path: Sequence[str],
    properties: JsonObject,
    times: tuple[str, str] = (CREATED, CREATED),
    **more: object,
) -> JsonObject:
    """A resource as Azure Resource Manager writes it, with ``more`` beside its properties.

    ``path`` leads to it from the workspace or registry: a kind and a name, perhaps another pair. ``times``
    are those of creation and change.
    """
    root = call.scope.id
    if call.container == "registries":
        root = f"azureml://registries/{call.scope.workspace}"
    return {
        "id": "/".join((root, *path)),
        "name": path[-1],
        "type": "/".join(("Microsoft.MachineLearningServices", call.container, *path[::2])),
        **more,
        "properties": properties,
        "systemData": describe_times(*times),
    }


def answer_deletion(deleted: bool) -> Response:
    """The answer to a deletion: 204 where there was nothing to delete."""
    return Response(status_code=200 if deleted else 204)


def describe_times(created: str, modified: str) -> JsonObject:
    """``systemData`` of a resource; times are in UTC, as the service writes them."""
    return {
        "createdAt": created,
        "createdBy": user_name(),
        "createdByType": "User",
        "lastModifiedAt": modified,
        "lastModifiedBy": user_name(),
        "lastModifiedByType": "User",
    }


PAGE = 100  # items
PAGE_BYTES = 4 << 20  # after which a page ends
_MOST = 2**31


def read_window(call: Call) -> tuple[int, int]:
    """How many items a request wants and how many it skips.

    Raises:
        ServiceError: 400, one is not a whole number from 0.
    """
    return min(_read_count(call, "$top", PAGE), 10 * PAGE), _read_count(call, "$skip", 0)


def _read_count(call: Call, key: str, default: int) -> int:
    text = call.query.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text[:12]) < _MOST and len(text) < 12):
        raise bad_request(f"`{key}` must be a whole number from 0, not `{text[:40]}`.")
    return int(text)


def views(call: Call) -> tuple[bool, ...]:
    """The values of ``archived`` that a request lists.

    Raises:
        ServiceError: 400, ``listViewType`` is another word.
    """
    word = call.query.get("listviewtype", "ActiveOnly") or "ActiveOnly"
    kinds = {"activeonly": (False,), "archivedonly": (True,), "all": (False, True)}
    view = kinds.get(word.lower().replace("_", ""))  # azure-ai-ml's documentation says ARCHIVED_ONLY
    if view is None:
        raise bad_request(f"`listViewType` is ActiveOnly, ArchivedOnly or All, not `{word[:40]}`.")
    return view


def answer_page(
    call: Call,
    records: Iterable[Item],
    describe: Callable[[Call, Any], JsonObject],
    *,
    read: Callable[[Item], object] = lambda record: record,
    name: Callable[[Item], object] | None = None,
    skipped: bool = False,
    token: Callable[[Item], int] | None = None,
) -> Response:
    """The records of one page that can be described, and the address of the next if there are more.

    A page ends early when it is large: records are read while it is made.

    Args:
        call: The request.
        records: Those of the request, or with ``skipped`` those from the beginning of its window.
        describe: The resource of a record as ``read`` returns it.
        read: Reads a record, where it is still the row of a table.
        name: What a record is called, in messages.
        skipped: Whether the request's ``$skip`` has been followed.
        token: What ``$skip`` of the next page is by its last record, in place of how many were before.
    """
    limit, skip = read_window(call)
    rest = iter(records) if skipped else itertools.islice(records, skip, None)
    shown: list[msgspec.Raw] = []
    count, size, last = 0, 0, 0
    for record in rest:
        if count == limit or size > PAGE_BYTES:
            # Without a token `$top` is all that the client wants.
            ends = "$top" in call.query and token is None and size <= PAGE_BYTES
            path = quote(call.id + ("/versions" if call.versions and not call.version else ""))
            query = {**call.query, "$skip": str(skip + count if token is None else last)}
            link = f"{call.base}{path}?{urlencode(query)}"
            return answer({"value": shown} if ends else {"value": shown, "nextLink": link})
        count, last = count + 1, 0 if token is None else token(record)
        for text in use_each(call.kind, [record], lambda item: encode(describe(call, read(item))), name):
            shown.append(msgspec.Raw(text))
            size += len(text)
    return answer({"value": shown})
