"""Azure ML's curated environments: which versions of the packages that scripts import they hold."""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from worldsize.facts import table

_NAME = re.compile(
    r"azureml:AzureML-(?P<asset>[^:@/]+)(?:[:@][^:@/]+)?"
    r"|azureml://registries/azureml/environments/(?P<registry>[^/]+)(?:/(?:versions|labels)/[^/]+)?"
)


class Curated(Struct, frozen=True):
    """One environment.

    Attributes:
        name: as the registry has it, ``sklearn-1.5``.
        requirements: what to ask pip for on this machine.
        modules: what scripts import of it.
    """

    name: str
    requirements: tuple[str, ...]
    modules: frozenset[str]


def lookup(reference: str) -> Curated | None:
    """The environment of a reference: ``azureml:AzureML-sklearn-1.5@latest`` or the registry's form."""
    found = _NAME.fullmatch(reference)
    return _all().get((found["asset"] or found["registry"]).lower()) if found else None


@cache
def _all() -> dict[str, Curated]:
    rows = table.read_rows("curated_environments")
    found = {}
    for name in sorted({row["environment"] for row in rows}):
        own = [row for row in rows if row["environment"] == name]
        lines = tuple(row["package"] + row["here"] for row in own)
        found[name] = Curated(name, lines, frozenset(row["module"] for row in own))
    return found
