"""Azure ML's curated environments: the packages that they contain, with versions."""

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
    """One environment."""

    name: str  # the name in the registry, `sklearn-1.5`
    requirements: tuple[str, ...]  # the requirements for pip on this machine
    modules: frozenset[str]  # the modules that scripts import from it


def lookup(reference: str) -> Curated | None:
    """The environment of a reference: ``azureml:AzureML-sklearn-1.5@latest`` or the registry's form."""
    match = _NAME.fullmatch(reference)
    return _all().get((match["asset"] or match["registry"]).lower()) if match else None


def names() -> list[str]:
    """All names, in the order of the alphabet."""
    return list(_all())


@cache
def _all() -> dict[str, Curated]:
    rows = table.read_rows("curated_environments")
    environments = {}
    for name in sorted({row["environment"] for row in rows}):
        packages = [row for row in rows if row["environment"] == name]
        lines = tuple(row["package"] + row["here"] for row in packages)
        environments[name] = Curated(name, lines, frozenset(row["module"] for row in packages))
    return environments
