"""Pages of a list, as Azure Resource Manager cuts them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from worldsize.serving.control.call import Call
from worldsize.serving.control.document import JsonObject
from worldsize.serving.database import Item, use_each
from worldsize.serving.errors import answer, bad_request, encode

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
    describe: Callable[[Item], JsonObject],
    *,
    name: Callable[[Item], object] | None = None,
    skipped: bool = False,
    token: Callable[[Item], int] | None = None,
) -> Response:
    """The records of one page that can be described, and the address of the next if there are more.

    A page ends early when it is large: records are read while it is made.

    Args:
        call: The request.
        records: Those of the request, or with ``skipped`` those from the beginning of its window.
        describe: The resource of a record.
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
            link = _link(call, {**call.query, "$skip": str(skip + count if token is None else last)})
            return answer({"value": shown} if ends else {"value": shown, "nextLink": link})
        count, last = count + 1, 0 if token is None else token(record)
        for text in use_each(call.kind, [record], lambda each: encode(describe(each)), name):
            shown.append(msgspec.Raw(text))
            size += len(text)
    return answer({"value": shown})


def _link(call: Call, query: Mapping[str, str]) -> str:
    path = quote(call.id + ("/versions" if call.versions and call.version is None else ""))
    return f"{call.base}{path}?{urlencode(query)}"
