"""The code folder contains more than 50 MB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.security import _uploads
from worldsize.rules.security._uploads import Upload

LIMIT = 50_000_000  # bytes


def check_upload(context: Context, upload: Upload) -> Iterator[Finding]:
    part, span, folder = upload
    sizes = _uploads.remaining(part)
    total = sum(sizes.values())
    if total > LIMIT:
        heads = Counter[str]()
        for place, size in sizes.items():
            heads[place.split("/", 1)[0]] += size
        largest, size = max(heads.items(), key=lambda each: (each[1], each[0]))
        message = (
            f"{_uploads.format_size(total)} are uploaded with `{part.path.name}`, more than"
            f" {_uploads.format_size(LIMIT)}: `{largest}` has {_uploads.format_size(size)} of it"
        )
        yield Finding(span, message, _uploads.suggest_exclusion(folder, largest))
