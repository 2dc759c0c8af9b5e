"""Who made a resource and when, as Azure Resource Manager writes it."""

from __future__ import annotations

import getpass
from functools import cache

from worldsize.serving.control.document import JsonObject


@cache
def user_name() -> str:
    """The user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a process without an entry in the list of users
        return "worldsize"


def describe_times(created: str, modified: str) -> JsonObject:
    """``systemData`` of a resource.

    Args:
        created: Time in UTC, as the service writes it.
        modified: The same.
    """
    return {
        "createdAt": created,
        "createdBy": user_name(),
        "createdByType": "User",
        "lastModifiedAt": modified,
        "lastModifiedBy": user_name(),
        "lastModifiedByType": "User",
    }
