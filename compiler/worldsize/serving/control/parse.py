"""Takes the path of a request to the management API apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from worldsize.serving.errors import ServiceError, bad_request
from worldsize.serving.workspace import Scope

PROVIDER = "microsoft.machinelearningservices"
_LONGEST = 1024  # characters of one segment


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A path below ``…/providers/Microsoft.MachineLearningServices/{container}/{name}``.

    ``container`` is ``workspaces`` or ``registries``. ``kind`` is empty for the container itself.
    """

    scope: Scope
    container: str
    kind: str = ""
    name: str | None = None
    label: str | None = None
    versions: bool = False
    version: str | None = None
    action: str | None = None


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

    Args:
        segments: Begins with ``subscriptions``; words of Azure Resource Manager are in any case.
    """
    words = [segment.lower() for segment in segments]
    if len(segments) < 8 or "" in segments[:8]:
        return None
    if (words[0], words[2], words[4], words[5]) != (
        "subscriptions",
        "resourcegroups",
        "providers",
        PROVIDER,
    ):
        return None
    if words[6] not in ("workspaces", "registries"):
        return None
    return _parse_inner(Scope(segments[1], segments[3], segments[7]), words[6], segments[8:])


def _parse_inner(scope: Scope, container: str, inner: Sequence[str]) -> ResourcePath:
    if "" in inner:
        raise ServiceError(404, "InvalidResourceName", "The path has an empty segment.")
    if not inner:
        return ResourcePath(scope, container)
    kind, name = inner[0].lower(), inner[1] if len(inner) > 1 else None
    rest = list(inner[2:])
    word = rest[0].lower() if rest else ""
    versions, version, label = False, None, None
    if word == "versions":
        versions, version, rest = True, rest[1] if len(rest) > 1 else None, rest[2:]
    elif word == "labels" and len(rest) > 1:
        label, rest = rest[1], rest[2:]
    action = "/".join(rest).lower() or None
    return ResourcePath(scope, container, kind, name, label, versions, version, action)
