"""Pages of a list, as Azure Resource Manager cuts them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from starlette.responses import Response

from worldsize.serving.control.call import Call
from worldsize.serving.control.document import JsonObject, answer
from worldsize.serving.errors import bad_request

PAGE = 100  # items
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


def answer_page(call: Call, items: Sequence[JsonObject], *, more: bool) -> Response:
    """The items of one page, and the address of the next if there is one."""
    document: JsonObject = {"value": list(items)}
    if more and "$top" not in call.query:  # `$top` is all that the client wants
        _, skipped = read_window(call)
        query = {**call.query, "$skip": str(skipped + len(items))}
        path = quote(call.id + ("/versions" if call.versions and call.version is None else ""))
        document["nextLink"] = f"{call.base}{path}?{urlencode(query)}"
    return answer(document)
