"""The code folder contains a repository."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.security import _uploads
from worldsize.rules.security._uploads import Upload


def check_upload(context: Context, upload: Upload) -> Iterator[Finding]:
    part, span, folder = upload
    for repository in _uploads.find_repositories(part):
        size = _uploads.format_size(repository.size)
        message = f"`{repository.place}`, a repository of {size}, is uploaded with `{part.path.name}`"
        yield Finding(span, message, _uploads.suggest_exclusion(folder, repository.place))
