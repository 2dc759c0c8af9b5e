"""The conditions of a request: If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from worldsize.serving.storage.blobs import Blob
from worldsize.serving.storage.errors import StorageError, blob_not_found


def check_read(headers: Mapping[str, str], blob: Blob | None) -> Blob:
    """The blob, if it exists and a reader's conditions hold.

    Raises:
        StorageError: 404, 304 or 412.
    """
    if blob is None:
        raise blob_not_found()
    _check_match(headers, blob)
    if _names(headers.get("if-none-match"), blob) or not _modified_since(headers, blob):
        raise StorageError(304, "ConditionNotMet", "The blob has not changed.")
    return blob


def check_write(headers: Mapping[str, str], blob: Blob | None) -> None:
    """Check a writer's conditions.

    Raises:
        StorageError: 409 if the blob exists and must not, 412 for any other condition.
    """
    if blob is None:
        if "if-match" in headers:
            raise _not_met()
        return
    if headers.get("if-none-match", "").strip() == "*":
        raise StorageError(409, "BlobAlreadyExists", "The specified blob already exists.")
    _check_match(headers, blob)
    if _names(headers.get("if-none-match"), blob) or not _modified_since(headers, blob):
        raise _not_met()


def _check_match(headers: Mapping[str, str], blob: Blob) -> None:
    wanted = headers.get("if-match")
    if wanted is not None and not _names(wanted, blob):
        raise _not_met()
    limit = _moment(headers.get("if-unmodified-since"))
    if limit is not None and blob.modified > limit:
        raise _not_met()


def _names(tags: str | None, blob: Blob) -> bool:
    """Whether a list of ETags has the blob's."""
    if tags is None:
        return False
    given = {each.strip().removeprefix("W/").strip('"') for each in tags.split(",")}
    return "*" in given or blob.etag.strip('"') in given


def _modified_since(headers: Mapping[str, str], blob: Blob) -> bool:
    limit = _moment(headers.get("if-modified-since"))
    return limit is None or blob.modified > limit


def _moment(text: str | None) -> datetime | None:
    """A date of HTTP; one that cannot be read counts as absent (RFC 9110, 13.1.3)."""
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else None


def _not_met() -> StorageError:
    return StorageError(412, "ConditionNotMet", "The condition of the request is not met.")
