"""The code folder contains an environment of installed packages."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.security import _uploads
from worldsize.rules.security._uploads import Upload


def check_upload(context: Context, upload: Upload) -> Iterator[Finding]:
    part, span, folder = upload
    for environment in _uploads.find_environments(part):
        size = _uploads.format_size(environment.size)
        message = f"`{environment.place}`, installed packages of {size}, is uploaded with `{part.path.name}`"
        yield Finding(span, message, _uploads.suggest_exclusion(folder, environment.place))
