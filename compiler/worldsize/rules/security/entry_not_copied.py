"""The code folder contains a pipe, a device, a broken link or an endless link."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.security import _uploads
from worldsize.rules.security._uploads import Upload


def check_upload(context: Context, upload: Upload) -> Iterator[Finding]:
    part, span, folder = upload
    left_out = part.listing.left_out
    if left_out:
        place, what = next(iter(sorted(left_out.items())))
        more = f", and so are {len(left_out) - 1} more such entries" if len(left_out) > 1 else ""
        message = f"`{place}` in `{part.path.name}` is {what}, which cannot be uploaded{more}"
        yield Finding(span, message, f"remove it, or {_uploads.suggest_exclusion(folder, place)}")
