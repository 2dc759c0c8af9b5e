"""The code folder contains files that usually hold keys or passwords."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.security import _uploads
from worldsize.rules.security._uploads import Upload

_SHOWN = 3


def check_upload(context: Context, upload: Upload) -> Iterator[Finding]:
    part, span, folder = upload
    places = _uploads.find_secrets(part)
    if places:
        size = _uploads.format_size(sum(part.listing.sizes[place] for place in places))
        listed = ", ".join(f"`{place}`" for place in places[:_SHOWN])
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        what = "which usually holds secrets" if len(places) == 1 else "which usually hold secrets"
        message = f"{listed}{more} ({size}), {what}, is uploaded with `{part.path.name}`"
        if len(places) > 1:
            message = message.replace("is uploaded", "are uploaded")
        yield Finding(span, message, _uploads.suggest_exclusion(folder, *places[:_SHOWN]))
