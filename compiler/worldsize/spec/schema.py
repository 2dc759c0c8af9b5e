"""The published JSON Schemas of a spec and of an estimate file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any

from worldsize.base import limits, resources
from worldsize.documents import shape
from worldsize.documents.shape import Violation

SPEC = "spec"
ESTIMATE = "estimate"  # refers to definitions of the spec's


@cache
def load_schema(name: str = SPEC) -> Mapping[str, Any]:
    """A schema as plain values."""
    schema: Mapping[str, Any] = json.loads(read_schema(name))
    return schema


def read_schema(name: str) -> str:
    """The text of a published schema."""
    return (resources.schemas() / f"{name}.schema.json").read_text(encoding="utf-8")


@cache
def _definitions(name: str) -> Mapping[str, Any]:
    """What a ``$ref`` of a schema refers to, by the last part of its address."""
    definitions: Mapping[str, Any] = load_schema(SPEC)["$defs"]
    return definitions if name == SPEC else {**definitions, **load_schema(name)["$defs"]}


@cache
def _load_whole(name: str) -> Mapping[str, Any]:
    """A schema without references, so that what says how a value is wrong finds everything in place."""
    whole: Mapping[str, Any] = shape.inline_references(load_schema(name), _definitions(name))
    return whole


def find_violations(instance: object, name: str = SPEC) -> list[Violation]:
    """Find the violations of a schema, up to a few hundred."""
    if next(shape.find_violations(instance, load_schema(name), _definitions(name)), None) is None:
        return []  # most files: a schema without references takes some time to make
    return list(islice(shape.find_violations(instance, _load_whole(name), {}), limits.SAME))


def matches_schema(text: str, subschema: Mapping[str, Any]) -> bool:
    """Whether a text satisfies the enumeration and pattern of a part of the schema."""
    keywords = {key: subschema[key] for key in ("enum", "pattern") if key in subschema}
    return next(shape.find_violations(text, keywords, {}), None) is None
