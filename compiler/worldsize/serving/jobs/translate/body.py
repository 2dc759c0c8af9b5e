"""A JSON object of a request, whose keys clients spell in camel case, and in snake case inside pipelines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from worldsize.serving.errors import bad_request

# ISO 8601, as far as the service's durations go: PT90S, PT1H30M, P2DT12H.
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d*)?S)?)?", re.ASCII)
_UNITS = (86_400, 3_600, 60, 1)


class Body:
    """An object of a request's body; ``where`` is its path in the body, for errors.

    Raises:
        ServiceError: The value is not an object.
    """

    def __init__(self, value: object, where: str = "properties") -> None:
        self.where = where
        self._members = {_squash(name): each for name, each in as_object(value, where).items()}

    def get(self, name: str) -> Any:
        """A member as it is, or None."""
        return self._members.get(_squash(name))

    def text(self, name: str) -> str | None:
        """A member that is a text or a number, as text.

        Raises:
            ServiceError: It is something else.
        """
        value = self.get(name)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool | Mapping | list):
            raise bad_request(f"`{self.where}.{name}` is not a text.")
        return str(value)

    def number(self, name: str) -> Any:
        """A count or another setting that may also be a text with a binding."""
        value = self.get(name)
        if isinstance(value, Mapping | list):
            raise bad_request(f"`{self.where}.{name}` is not a number.")
        return value

    def object(self, name: str) -> Mapping[str, Any]:
        """A member that is an object with names of the user's as keys; empty if it is absent."""
        value = self.get(name)
        return as_object({} if value is None else value, f"{self.where}.{name}")

    def body(self, name: str) -> Body | None:
        """A member that is an object with keys of the service's, or None."""
        value = self.get(name)
        return None if value is None else Body(value, f"{self.where}.{name}")

    def seconds(self, name: str) -> Any:
        """A duration in seconds: from ISO 8601, or the number that nodes of pipelines have.

        Raises:
            ServiceError: It is neither.
        """
        value = self.number(name)
        if not isinstance(value, str) or "${{" in value:
            return value
        match = _DURATION.fullmatch(value)
        if match is None or not any(match.groups()):
            if value.isdecimal():
                return int(value)
            raise bad_request(f"`{self.where}.{name}` is `{value[:80]}`, which is not a duration.")
        return sum(int(count or 0) * unit for count, unit in zip(match.groups(), _UNITS, strict=True))


def as_object(value: object, where: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        ServiceError: The value is something else.
    """
    if not isinstance(value, Mapping):
        raise bad_request(f"`{where}` is not an object.")
    return value


def drop_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping without the members that have no value."""
    return {name: value for name, value in document.items() if value is not None and value != {}}


def _squash(name: str) -> str:
    return name.replace("_", "").lower()
